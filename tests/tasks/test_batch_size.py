"""How batches and commits find their size: functions of different cost, played until the size is at rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.tasks.batch_size import CALL_MS, FIRST_RECORDS, Amount, BatchSize, CommitSize

MAX, BYTES, INTERVAL_MS = 2_000, 16 << 20, 300_000


def played(call_ms: float, each_ms: float, each_bytes: int = 0, batches: int = 40) -> tuple[list[int], list[str]]:
    """The sizes of full batches for a function of such cost, and the limits that were met."""
    size = BatchSize(MAX, BYTES, INTERVAL_MS)
    sizes, limits = [], []
    for _ in range(batches):
        sizes.append(size.records)
        limit = size.learn(Amount(size.records, each_bytes * size.records, call_ms + each_ms * size.records))
        limits += [limit] if limit else []
    return sizes, limits


@pytest.mark.parametrize(
    ("call_ms", "each_ms", "each_bytes", "smallest", "largest"),
    [
        (0, 0.015, 200, 2_000, 2_000),  # count per key
        (0, 6, 200, 30, 42),  # 6 ms a record: some 250 ms a batch
        (0, 200, 200, 1, 1),
        (0, 30_000, 200, 1, 1),  # a record alone takes 30 s
        (3_000, 0, 200, 2_000, 2_000),  # one request for each call, whatever its size
        (3_000, 1, 200, 1_500, 2_000),  # the records may take as long as the request
        (100, 0.5, 200, 250, 500),
        (0, 0.1, 12 * 100_000, 6, 13),  # 12 outputs of 100 KB each
    ],
)
def test_the_size_comes_to_rest_where_the_limits_are(call_ms, each_ms, each_bytes, smallest, largest):
    sizes, _ = played(call_ms, each_ms, each_bytes)
    assert all(smallest <= size <= largest for size in sizes[15:]), sizes


def test_the_first_batch_is_small_and_the_next_ones_double():
    assert played(0, 0.015)[0][:9] == [FIRST_RECORDS << n for n in range(7)] + [MAX, MAX]


def test_the_limit_that_was_met_is_named():
    assert played(0, 30)[1] == ["16 records took 0.5 s"]
    limits = played(0, 0, 3 << 20)[1]
    assert limits == ["max_poll_bytes = 16777216: 16 records wrote 50,331,648 bytes"]


def test_a_function_that_becomes_slow_gets_smaller_batches_and_larger_ones_when_it_is_quick_again():
    size = BatchSize(MAX, BYTES, INTERVAL_MS)
    for _ in range(10):
        size.learn(Amount(size.records, 0, 0.015 * size.records))
    assert size.records == MAX
    for _ in range(3):
        size.learn(Amount(size.records, 0, 50.0 * size.records))
    assert size.records == CALL_MS // 50
    for _ in range(12):
        size.learn(Amount(size.records, 0, 0.015 * size.records))
    assert size.records == MAX


def test_batches_that_are_not_full_are_no_reason_for_larger_ones():
    size = BatchSize(MAX, BYTES, INTERVAL_MS)
    for _ in range(20):
        size.learn(Amount(3, 10, 0.1))
    assert size.records == FIRST_RECORDS


def test_a_call_that_comes_near_the_poll_interval_makes_the_next_one_smaller_whatever_a_record_costs():
    size = BatchSize(MAX, BYTES, 2_000)
    sizes = [size.records]
    for _ in range(6):
        size.learn(Amount(size.records, 0, 3_000))  # one request for each call
        sizes.append(size.records)
    assert max(sizes[1:]) <= 2, sizes


def test_batches_that_drift_back_to_a_size_of_before_are_compared_with_themselves():
    size = BatchSize(MAX, BYTES, INTERVAL_MS)
    for records in (3, 5, 4, 3):
        assert size.learn(Amount(records, 0, 1)) is None


def test_a_function_that_becomes_slow_while_little_comes_in_gets_small_batches_before_much_does():
    size = BatchSize(MAX, BYTES, INTERVAL_MS)
    for _ in range(12):
        size.learn(Amount(size.records, 0, 0.015 * size.records))
    assert size.learn(Amount(40, 0, 10_000)) == "40 records took 10.0 s"
    assert size.records == 1


@given(
    st.lists(
        st.tuples(st.integers(1, 8) | st.integers(1, MAX), st.floats(0, 1e6), st.integers(0, 1 << 40)), max_size=60
    ),
    st.integers(1, MAX),
    st.integers(1, 1 << 40),
)
def test_whatever_batches_cost_the_size_stays_within_its_bounds(batches, records_max, bytes_max):
    size = BatchSize(records_max, bytes_max, INTERVAL_MS)
    for records, took_ms, written in batches:
        before = size.records
        limit = size.learn(Amount(records, written, took_ms))
        assert 1 <= size.records <= records_max
        assert size.records <= 2 * before
        assert (limit is None) == (size.records >= before)


def test_a_commit_that_failed_makes_the_next_one_half_as_large():
    size = CommitSize(20_000, 64 << 20)
    size.shrink(Amount(10_000, 8_000_000))
    assert (size.records, size.bytes) == (5_000, 4_000_000)
    assert size.left(Amount(4_000, 100)) == 1_000
    assert size.left(Amount(10, 4_000_000)) == 0


def test_a_commit_far_below_the_limit_is_no_reason_for_a_larger_one():
    size = CommitSize(20_000, 64 << 20)
    size.shrink(Amount(10_000, 8_000_000))
    for _ in range(100):
        size.grow(Amount())
        size.grow(Amount(2_000, 1_000_000))
    assert (size.records, size.bytes) == (5_000, 4_000_000)
    size.grow(Amount(100, 3_900_000))
    assert (size.records, size.bytes) == (6_251, 5_000_000)


def test_commits_that_go_on_failing_come_down_to_one_record_and_grow_again_when_one_succeeds():
    size = CommitSize(20_000, 64 << 20)
    for _ in range(40):
        size.shrink(Amount(size.records, size.bytes))
    assert (size.records, size.bytes) == (1, 64 << 10)
    assert size.left(Amount()) == 1, "one record can always be worked on"
    steps = 0
    while (size.records, size.bytes) != (20_000, 64 << 20):
        size.grow(Amount(size.records, size.bytes))
        steps += 1
    assert 30 < steps < 100
