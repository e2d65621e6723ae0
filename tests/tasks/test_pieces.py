"""A batch with guilty records, worked on as its pieces say, against one that is worked on record by record."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.tasks.pieces import Pieces


def work(records: int, guilty: set[int], limits: list[int], *, hint: bool) -> tuple[list[int], set[int], list[int]]:
    """Work on records that raise where they are guilty; ``limits`` cuts each call further, as a commit's size does.

    Return the records that are done in their order, those that are set aside, and how often each was worked on.
    """
    pieces, worked, done, aside, at = Pieces(), [0] * records, [], set(), 0
    while at < records:
        left = records - at
        size = min(pieces.next_records(left), limits.pop() if limits else left)
        batch = range(at, at + size)
        raised = next((n for n in batch if n in guilty), None)
        for n in batch if raised is None else range(at, raised + 1):
            worked[n] += 1
        if raised is not None and size > 1:
            pieces.split(size, raised - at if hint else 0)
            continue
        if raised is None:
            done += batch
        else:
            aside.add(raised)
        pieces.pass_over(size)
        at += size
    assert not pieces.sizes
    return done, aside, worked


@given(
    records=st.integers(1, 200),
    guilty=st.sets(st.integers(0, 199), max_size=20),
    limits=st.lists(st.integers(1, 50), max_size=40),
    hint=st.booleans(),
)
def test_exactly_the_guilty_are_set_aside_and_the_others_are_done_in_their_order(
    records: int, guilty: set[int], limits: list[int], hint: bool
) -> None:
    done, aside, _ = work(records, guilty, limits, hint=hint)
    assert aside == {n for n in guilty if n < records}
    assert done == [n for n in range(records) if n not in guilty]


@given(guilty=st.sets(st.integers(1, 1998), max_size=50))
def test_a_function_that_reads_in_order_works_on_an_innocent_record_twice_at_most(guilty: set[int]) -> None:
    """Guilty records side by side have no innocent ones between them."""
    _, _, worked = work(2_000, guilty, [], hint=True)
    halved = 12  # the last and the first record of a piece are no hint; halving them takes the logarithm of its size
    assert sum(count > 2 for n, count in enumerate(worked) if n not in guilty) <= halved * (len(guilty) + 1) * 2
    assert sum(worked) <= 2 * 2_000 + halved * (len(guilty) + 1) * 4


def test_one_guilty_record_of_thousands_takes_few_calls() -> None:
    for hint, calls_max in ((True, 4), (False, 24)):
        pieces, calls, at = Pieces(), 0, 0
        while at < 2_000:
            size = pieces.next_records(2_000 - at)
            calls += 1
            if at <= 777 < at + size and size > 1:
                pieces.split(size, 777 - at if hint else 0)
            else:
                pieces.pass_over(size)
                at += size
        assert calls <= calls_max
