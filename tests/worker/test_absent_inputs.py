"""Commits with offsets of input partitions that the brokers do not know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from kstreams_assign import TaskId, TopicPartition
from kstreams_assign.adapters.kafka_python.absent_partitions import refuse_absent
from kstreams_assign.errors import PartitionsAbsent
from kstreams_assign.events import CommitDeferredEvent, Event, OffsetsDroppedEvent
from kstreams_assign.tasks.buffer import Row
from kstreams_assign.tasks.commit import CommitEnd
from kstreams_assign.testing.around import DirectCalls
from kstreams_assign.worker.absent_inputs import KEPT_MS, AbsentInputs
from kstreams_assign.worker.committing import Committer
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.running import NOTHING, Work
from kstreams_assign.worker.shares import Share
from tests.worker.test_last_writes import Member
from tests.worker.test_streams_member import Scene

THERE, GONE, OTHER = TopicPartition("a", 0), TopicPartition("gone", 0), TopicPartition("gone", 1)


class Brokers(Member):
    """A member's group, and a producer without records."""

    def __init__(self) -> None:
        self.absent: set[TopicPartition] = set()
        self.committed: dict[TopicPartition, int] = {}

    def commit(self, offsets: Mapping[TopicPartition, int], _timeout_s: float, _metadata: object) -> None:
        self.committed |= {partition: offset for partition, offset in offsets.items() if partition not in self.absent}
        refuse_absent(self.absent & offsets.keys())

    def begin_commit(self) -> None:
        """Nothing is on its way."""

    def produce_all(self, rows: Iterable[Row], *, track: bool = False) -> None:  # noqa: ARG002
        assert not list(rows)

    def acknowledged(self) -> Mapping[TopicPartition, int]:
        return {}


class Desk:
    """Commits offsets, and moves the clock."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.brokers = Brokers()
        self.events: list[Event] = []
        self.committer = Committer(
            self.brokers,  # type: ignore[arg-type]
            self.brokers,  # type: ignore[arg-type]
            1.0,
            EventLog("test", self.events.append),
            DirectCalls(),
            absent=AbsentInputs(lambda: self.now_ms),
        )

    def commit(self, offsets: Mapping[TopicPartition, int]) -> CommitEnd:
        work = Work(NOTHING, offsets, {})
        self.committer.begin([Share(TaskId(0, 0), None, {}, frozenset(), work, lambda: None)])
        ended = self.committer.advance()
        assert ended is not None
        return ended.end

    def dropped(self) -> list[tuple[str, ...]]:
        return [event.partitions for event in self.events if isinstance(event, OffsetsDroppedEvent)]


def test_offsets_of_unknown_partitions_are_kept_for_a_while_and_then_dropped_and_named_once() -> None:
    desk = Desk()
    desk.brokers.absent = {GONE, OTHER}
    offsets = {THERE: 1, GONE: 2, OTHER: 3}
    assert desk.commit(offsets) is CommitEnd.DEFERRED
    desk.now_ms += KEPT_MS - 1
    assert desk.commit(offsets) is CommitEnd.DEFERRED
    assert [event.reason for event in desk.events if isinstance(event, CommitDeferredEvent)] == [
        "commit offsets: the brokers do not know gone-0, gone-1"
    ] * 2
    assert desk.dropped() == []
    desk.now_ms += 1
    assert desk.commit(offsets) is CommitEnd.DONE
    assert desk.committer.offsets() == desk.brokers.committed == {THERE: 1}
    assert desk.dropped() == [("gone-0", "gone-1")]
    assert desk.commit({THERE: 2, GONE: 2}) is CommitEnd.DONE
    assert desk.dropped() == [("gone-0", "gone-1")]


def test_a_partition_that_is_unknown_for_a_moment_is_committed_by_the_next_commit() -> None:
    desk = Desk()
    desk.brokers.absent = {GONE}
    assert desk.commit({GONE: 2}) is CommitEnd.DEFERRED
    desk.brokers.absent.clear()
    assert desk.commit({GONE: 2}) is CommitEnd.DONE
    assert desk.committer.offsets() == desk.brokers.committed == {GONE: 2}
    desk.now_ms += KEPT_MS
    desk.brokers.absent = {GONE}
    assert desk.commit({GONE: 3}) is CommitEnd.DEFERRED, "it counts from the first refusal since then"


def test_a_dropped_partition_that_is_there_again_is_committed_and_named_again_when_it_goes() -> None:
    desk = Desk()
    for offset in (2, 5):
        desk.brokers.absent = {GONE}
        desk.commit({GONE: offset})
        desk.now_ms += KEPT_MS
        assert desk.commit({GONE: offset}) is CommitEnd.DONE
        desk.brokers.absent.clear()
        assert desk.commit({GONE: offset + 1}) is CommitEnd.DONE
        assert desk.brokers.committed == {GONE: offset + 1}
    assert desk.dropped() == [("gone-0",)] * 2


def test_others_wait_for_a_partition_that_is_unknown_for_the_first_time() -> None:
    desk = Desk()
    desk.brokers.absent = {GONE, OTHER}
    desk.commit({GONE: 2})
    desk.now_ms += KEPT_MS
    assert desk.commit({GONE: 2, OTHER: 3}) is CommitEnd.DEFERRED
    desk.now_ms += KEPT_MS
    assert desk.commit({GONE: 2, OTHER: 3}) is CommitEnd.DONE


def test_a_member_of_a_streams_group_waits_for_no_other_epoch(tmp_path: Path) -> None:
    with closing(Scene(tmp_path)) as scene:
        member = scene.joined()
        scene.commits.answers = [PartitionsAbsent("on purpose", {GONE})]
        with pytest.raises(PartitionsAbsent):
            member.commit({THERE: 1, GONE: 1}, 600, {})
        assert len(scene.commits.sent) == 1
