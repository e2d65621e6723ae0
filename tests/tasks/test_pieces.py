"""A batch with guilty records, worked on as its pieces say, against one that is worked on record by record."""

from __future__ import annotations

from hypothesis import example, given
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


@given(guilty=st.sets(st.integers(0, 1999), max_size=50))
@example(guilty={1, 2, 500})
@example(guilty={1999})
def test_a_function_that_reads_in_order_works_on_a_record_three_times_on_average_at_most(guilty: set[int]) -> None:
    """Twice where the guilty record is in the middle of its piece.

    A piece of n records whose last one is guilty is halved to its end: n records, then n again, then n/2, n/4, ... A
    piece whose first record is guilty is halved as well, but of each half only that record is worked on.
    """
    _, _, worked = work(2_000, guilty, [], hint=True)
    halved = 12  # the logarithm of 2,000, and one more
    assert sum(worked) <= 3 * 2_000 + halved * (len(guilty) + 1) * 2


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
