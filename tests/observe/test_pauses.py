"""Paused tasks, as an observer sees them in the committed offsets."""

from __future__ import annotations

from dataclasses import replace

from kstreams_assign.assign import AssignConfig
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.observe.cluster import ObservedGroup
from kstreams_assign.observe.decoded import decode_group
from kstreams_assign.observe.describe import describe
from kstreams_assign.observe.document import document
from kstreams_assign.observe.reasons import reasons
from kstreams_assign.observe.settings import settings_of
from kstreams_assign.observe.snapshot import read_snapshot, snapshot_text
from kstreams_assign.observe.topology import inferred_topology
from kstreams_assign.tasks.pausing import PauseMark
from kstreams_assign.wire.offset_metadata import OffsetMetadata, write_offset_metadata
from tests.observe.seen_group import SeenGroup, settled


def committed(mark: PauseMark) -> str:
    return write_offset_metadata(OffsetMetadata(7, mark.write_into(b"")))


def seen(group: SeenGroup, metadata: dict[TopicPartition, str]) -> ObservedGroup:
    snapshot = read_snapshot(snapshot_text(replace(group.snapshot(), committed_metadata=metadata)))
    assert snapshot.committed_metadata == metadata
    decoded = decode_group(snapshot)
    return ObservedGroup(decoded, inferred_topology(decoded), settings_of(decoded, {}))


def test_it_says_which_tasks_are_paused_and_for_how_long() -> None:
    group = settled(members=2)
    since_ms = group.now_ms - 300_000
    about = describe(
        seen(
            group,
            {
                TopicPartition("orders", 1): committed(PauseMark(since_ms)),
                TopicPartition("orders", 2): committed(PauseMark(5, 6)),
                TopicPartition("orders", 3): "text of another program",
                TopicPartition("orders", 99): committed(PauseMark(since_ms)),
            },
        )
    )
    assert about.paused == {TaskId(0, 1): since_ms}
    assert document(about)["paused"] == {"0_1": since_ms}
    assert "paused: 0_1 (for 5 min)" in reasons(about)
    assert not any("not ours" in text for text in reasons(about))


def test_of_the_inputs_of_a_task_the_later_word_counts() -> None:
    shape = TopologyShape((SubtopologyShape(("orders", "clicks"), (Store("totals"),)),))
    group = SeenGroup(shape, {"orders": 3, "clicks": 3}, AssignConfig())
    group.add(1)
    group.settle()
    first, second = TopicPartition("orders", 1), TopicPartition("clicks", 1)
    paused, resumed = committed(PauseMark(5)), committed(PauseMark(5, 8))
    assert describe(seen(group, {first: paused, second: paused})).paused == {TaskId(0, 1): 5}
    assert describe(seen(group, {first: paused, second: resumed})).paused == {}


def test_a_member_that_is_not_ours_processes_a_paused_task() -> None:
    about = describe(seen(settled(ours=False), {TopicPartition("orders", 1): committed(PauseMark(5))}))
    assert "not ours, so processed though paused: 0_1" in reasons(about)


def test_a_snapshot_of_an_earlier_release_knows_of_no_pauses() -> None:
    text = snapshot_text(settled().snapshot()).replace(' "committed_metadata": {},\n', "")
    assert "committed_metadata" not in text
    assert read_snapshot(text).committed_metadata == {}
