"""Partition time: what is committed beside an offset, against all records before it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.tasks.times import PartitionTime
from kstreams_assign.wire.offset_metadata import OffsetMetadata, read_offset_metadata, write_offset_metadata


@given(
    before=st.none() | st.integers(0, 50),
    batches=st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=4), min_size=1, max_size=6),
    data=st.data(),
)
def test_a_commit_has_the_newest_time_of_the_whole_batches_before_its_offset(
    before: int | None, batches: list[list[int]], data: st.DataObject
) -> None:
    partition_time = PartitionTime(write_offset_metadata(OffsetMetadata(before, b"java's")))
    seen: list[tuple[int, int]] = []
    next_offset = committed = 0
    for times in batches:
        next_offset += len(times)
        seen.append((next_offset, max(times)))
        partition_time.saw(next_offset, max(times))
        committed = data.draw(st.integers(committed, next_offset))
        known = [time_ms for offset, time_ms in seen if offset <= committed] + ([] if before is None else [before])
        expected = OffsetMetadata(max(known, default=None), b"java's")
        assert read_offset_metadata(partition_time.commit(committed)) == expected


def test_time_does_not_go_back_with_older_records() -> None:
    partition_time = PartitionTime(write_offset_metadata(OffsetMetadata(100)))
    partition_time.saw(7, 30)
    assert read_offset_metadata(partition_time.commit(7)).partition_time_ms == 100 == partition_time.time_ms


def test_records_that_come_again_after_a_rollback_count_once_and_what_never_came_back_not_at_all() -> None:
    partition_time = PartitionTime()
    partition_time.saw(5, 10)
    partition_time.saw(9, 90)
    partition_time.saw(4, 8)  # read again from before 4, and another record stands there now
    assert read_offset_metadata(partition_time.commit(9)).partition_time_ms == 8
