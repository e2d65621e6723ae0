"""Consumed records of repartition topics: what is deleted, when, and that no other work waits for it."""

from __future__ import annotations

from collections.abc import Mapping

from kstreams_assign.errors import BrokerError, BrokerUnavailable, KStreamsAssignError
from kstreams_assign.events import Event
from kstreams_assign.model import TopicPartition
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.purging import Purging

WORDS, MORE_WORDS = TopicPartition("app-words-repartition", 0), TopicPartition("app-words-repartition", 1)
LINES = TopicPartition("lines", 0)


class Brokers:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Mapping[TopicPartition, int]] = []
        self.busy = False
        self.failed: Mapping[TopicPartition, KStreamsAssignError] = {}

    def delete_before(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.asked.append(dict(offsets))
        self.busy = True

    def failures(self) -> Mapping[TopicPartition, KStreamsAssignError]:
        failed, self.failed = self.failed, {}
        return failed


class Bench:
    def __init__(self) -> None:
        self.now_ms = 1_000
        self.brokers = Brokers()
        self.events: list[Event] = []
        log = EventLog("p", self.events.append)
        self.purging = Purging({WORDS.topic}, 30_000, self.brokers, lambda: self.now_ms, log)
        self.purging.follow([WORDS, MORE_WORDS, LINES])

    def later(self, ms: int) -> None:
        self.now_ms += ms
        self.purging.turn()


def test_the_newest_committed_offsets_of_repartition_topics_go_once_an_interval() -> None:
    bench = Bench()
    bench.purging.committed({WORDS: 5, LINES: 9})
    bench.purging.committed({WORDS: 7})
    bench.later(29_999)
    assert bench.brokers.asked == []
    bench.later(1)
    assert bench.brokers.asked == [{WORDS: 7}]
    bench.brokers.busy = False
    bench.later(30_000)
    assert len(bench.brokers.asked) == 1, "nothing new is consumed"


def test_at_most_one_request_is_under_way_and_a_failure_is_reported() -> None:
    bench = Bench()
    bench.purging.committed({WORDS: 5})
    bench.later(30_000)
    bench.purging.committed({WORDS: 8})
    bench.later(60_000)
    assert bench.brokers.asked == [{WORDS: 5}]
    bench.brokers.busy, bench.brokers.failed = False, {WORDS: BrokerError("not allowed")}
    bench.later(1)
    assert bench.brokers.asked == [{WORDS: 5}, {WORDS: 8}]
    [failed] = bench.events
    assert failed.warnings == ("consumed records are not deleted, app-words-repartition: not allowed",)


def test_a_deletion_that_failed_is_asked_for_again_although_nothing_new_is_consumed() -> None:
    bench = Bench()
    bench.purging.committed({WORDS: 5, MORE_WORDS: 6})
    bench.later(30_000)
    bench.brokers.busy, bench.brokers.failed = False, {WORDS: BrokerUnavailable("timed out")}
    bench.later(30_000)
    assert bench.brokers.asked == [{WORDS: 5, MORE_WORDS: 6}, {WORDS: 5}]
    bench.brokers.busy = False
    bench.later(30_000)
    assert len(bench.brokers.asked) == 2


def test_a_refused_offset_is_not_asked_for_again() -> None:
    """The topic may be created again, and the offset then be that of a record that no task has read."""
    bench = Bench()
    bench.purging.committed({WORDS: 5})
    bench.later(30_000)
    bench.brokers.busy, bench.brokers.failed = False, {WORDS: BrokerError("unknown topic")}
    bench.later(30_000)
    assert bench.brokers.asked == [{WORDS: 5}]
    bench.purging.committed({WORDS: 2})
    bench.later(30_000)
    assert bench.brokers.asked == [{WORDS: 5}, {WORDS: 2}]


def test_a_failed_deletion_is_not_asked_for_again_once_its_task_has_stopped() -> None:
    """Not even if the task runs again by then."""
    bench = Bench()
    bench.purging.committed({WORDS: 5, MORE_WORDS: 6})
    bench.later(30_000)
    bench.purging.forget([WORDS])
    bench.purging.follow([WORDS])
    timed_out = BrokerUnavailable("timed out")
    bench.brokers.busy, bench.brokers.failed = False, {WORDS: timed_out, MORE_WORDS: timed_out}
    bench.later(30_000)
    assert bench.brokers.asked == [{WORDS: 5, MORE_WORDS: 6}, {MORE_WORDS: 6}]


def test_a_reason_is_reported_once_until_it_changes_or_comes_back() -> None:
    bench = Bench()
    bench.purging.committed({WORDS: 5})
    bench.later(30_000)
    for why in ("timed out", "timed out", "not allowed", "", "not allowed"):
        bench.brokers.busy, bench.brokers.failed = False, {WORDS: BrokerError(why)} if why else {}
        bench.purging.committed({WORDS: 5})
        bench.later(30_000)
    reported = [warning.rpartition(": ")[2] for event in bench.events for warning in event.warnings]
    assert reported == ["timed out", "not allowed", "not allowed"]
