"""The mark of a paused task beside its offsets, against what happened, and Kafka Streams 4.3.1's own merge."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.tasks.pausing import PAUSED_MS, RESUMED_MS, PauseMark
from kstreams_assign.tasks.times import PartitionTime
from kstreams_assign.wire.offset_metadata import (
    read_offset_metadata,
    read_processor_metadata,
    write_processor_metadata,
)

MERGED_BY_JAVA = {
    # of two inputs with these marks and an entry of an aggregation, and of three
    (PauseMark(1_700_000_000_500, 1_700_000_000_400), PauseMark(1_700_000_000_100, 1_700_000_000_600)): (
        "AgAAAAAAAAAHAAAAAwAAAANhZ2cAAAAAAAAABQAAABlrc3RyZWFtc19hc3NpZ24ucGF1c2VkX21zAAABi8/lafQAAAAaa3N0cmVhbXNfYXNz"
        "aWduLnJlc3VtZWRfbXMAAAGLz+VqWA=="
    ),
    (
        PauseMark(1_700_000_000_500, 1_700_000_000_400),
        PauseMark(1_700_000_000_100, 1_700_000_000_600),
        PauseMark(1_700_000_000_700),
    ): (
        "AgAAAAAAAAAHAAAAAwAAAANhZ2cAAAAAAAAABQAAABlrc3RyZWFtc19hc3NpZ24ucGF1c2VkX21zAAABi8/larwAAAAaa3N0cmVhbXNfYXNz"
        "aWduLnJlc3VtZWRfbXMAAAGLz+VqWA=="
    ),
    (PauseMark(1_700_000_000_700),): ("AgAAAAAAAAAHAAAAAQAAABlrc3RyZWFtc19hc3NpZ24ucGF1c2VkX21zAAABi8/larw="),
}
"""Written by ``TopicPartitionMetadata.encode`` after ``ProcessorMetadata.update`` of what this package had encoded."""

texts = st.text(max_size=8)
longs = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize("marks", MERGED_BY_JAVA)
def test_a_java_member_that_merges_the_inputs_of_a_task_hands_the_same_mark_on(marks: tuple[PauseMark, ...]) -> None:
    metadata = read_offset_metadata(MERGED_BY_JAVA[marks])
    assert PauseMark.read(metadata.processor) == PauseMark.merged(marks)
    assert PartitionTime(MERGED_BY_JAVA[marks]).time_ms == 7


class Change(NamedTuple):
    """What a task's owner does: the inputs that its commit reaches, and the clock of its machine."""

    paused: bool
    inputs: frozenset[int]
    now_ms: int
    by_java: bool


changes = st.lists(
    st.builds(
        Change, st.booleans(), st.frozensets(st.integers(0, 2), min_size=1), st.integers(0, 30), by_java=st.booleans()
    ),
    max_size=12,
)


@given(changes)
def test_the_last_change_counts_whatever_clocks_say_and_java_merges(made: list[Change]) -> None:
    """The twin is one boolean. A change reaches the inputs that the task has by then; a Java owner changes nothing."""
    committed = [b"", b"", b""]
    is_paused = False
    for change in made:
        mark = PauseMark.merged(map(PauseMark.read, committed))
        assert mark.is_paused == is_paused
        assert (mark.since_ms is None) == (not is_paused)
        if not change.by_java:
            is_paused = change.paused
            mark = mark.changed(change.now_ms, paused=change.paused)
        for number in change.inputs:
            committed[number] = mark.write_into(committed[number])
    assert PauseMark.merged(map(PauseMark.read, committed)).is_paused == is_paused


@given(st.dictionaries(texts, longs), st.integers(0, 100))
def test_other_entries_of_the_processor_metadata_stay(entries: dict[str, int], now_ms: int) -> None:
    before = write_processor_metadata(entries)
    marked = PauseMark().changed(now_ms, paused=True).write_into(before)
    assert read_processor_metadata(marked) == {**entries, PAUSED_MS: now_ms}
    resumed = PauseMark.read(marked).changed(now_ms, paused=False).write_into(marked)
    assert read_processor_metadata(resumed) == {**entries, PAUSED_MS: now_ms, RESUMED_MS: now_ms}


def test_a_task_that_was_never_paused_commits_the_bytes_that_it_read() -> None:
    java_order = bytes.fromhex("000000010000000161") + b"\xff" * 8
    assert PauseMark().write_into(java_order) is java_order
    assert PauseMark().changed(5, paused=False) == PauseMark()


def test_since_is_the_time_of_the_first_of_two_requests() -> None:
    mark = PauseMark().changed(5, paused=True)
    assert mark.changed(9, paused=True).since_ms == 5
    assert mark.changed(3, paused=False).changed(3, paused=True).since_ms == 6


@given(st.dictionaries(texts, longs))
def test_processor_metadata_is_read_as_it_is_written(entries: dict[str, int]) -> None:
    assert read_processor_metadata(write_processor_metadata(entries)) == entries


@given(st.binary(max_size=60))
def test_any_processor_metadata_is_accepted(data: bytes) -> None:
    PauseMark.read(data)
    assert PauseMark.read(PauseMark(5).write_into(data)) == PauseMark(5, PauseMark.read(data).resumed_ms)
