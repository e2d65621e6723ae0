"""Input without a committed offset begins where it began first, whatever fails after that."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from kstreams_assign import Config, Record, Task, TopicPartition
from kstreams_assign.errors import BrokerUnavailable, CommitDeferred, CommitRefused
from kstreams_assign.events import InputOutOfRangeEvent, RunningEvent
from kstreams_assign.group.values import MemberId
from kstreams_assign.worker.locating import partition_of
from kstreams_assign.worker.start_positions import StartPositions
from tests.worker.app import PARTITIONS, App, count

SOURCE, INTERNAL = TopicPartition("orders", 0), TopicPartition("app-words-repartition", 0)


class Log:
    """A log that grows each time its end is looked up, and a group that keeps what is committed, or refuses.

    ``before_owns`` runs when this member is asked what it owns.
    """

    def __init__(self) -> None:
        self.end = 100
        self.refusals: list[Exception] = []
        self.generation = 1
        self.owned = {SOURCE}
        self.committed: dict[TopicPartition, int] = {}
        self.before_owns: Callable[[], None] = lambda: None

    def read(self, partitions: Iterable[TopicPartition], _timeout_s: float) -> Mapping[TopicPartition, int]:
        return {at: self.committed[at] for at in partitions if at in self.committed}

    def start_offsets(self, partitions: Iterable[TopicPartition], _timeout_s: float) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, 5)

    def end_offsets(self, partitions: Iterable[TopicPartition], _timeout_s: float) -> Mapping[TopicPartition, int]:
        self.end += 10
        return dict.fromkeys(partitions, self.end)

    def member(self) -> MemberId:
        if self.refusals:
            raise self.refusals.pop()
        return MemberId(self.generation, "me", None)

    def owns(self, partitions: Collection[TopicPartition]) -> bool:
        self.before_owns()
        return self.owned.issuperset(partitions)

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        _timeout_s: float,
        _metadata: Mapping[TopicPartition, str],
        only_as: MemberId | None = None,
    ) -> None:
        if only_as not in (None, self.member()):
            raise CommitRefused("the generation is over")
        self.committed |= offsets


def starts(log: Log, policy: str) -> StartPositions:
    settings: dict[str, Any] = {"auto_offset_reset": policy}
    config = Config(application_id="app", bootstrap_servers="localhost:1", **settings)
    return StartPositions(config, {INTERNAL.topic}, log, log, log)


def test_an_end_is_committed_before_anything_is_read() -> None:
    log = Log()
    assert starts(log, "latest").resolve([SOURCE, INTERNAL], 1) == {SOURCE: 110, INTERNAL: 5}
    assert log.committed == {SOURCE: 110}


def test_a_start_needs_no_commit() -> None:
    log = Log()
    assert starts(log, "earliest").resolve([SOURCE, INTERNAL], 1) == {SOURCE: 5, INTERNAL: 5}
    assert log.committed == {}


def test_a_rebalance_under_way_is_waited_for() -> None:
    log = Log()
    log.refusals = [CommitDeferred("joining"), CommitRefused("over")]
    assert starts(log, "latest").resolve([SOURCE], 1) == log.committed == {SOURCE: 110}


def test_a_rebalance_that_takes_long_is_no_answer_and_commits_nothing() -> None:
    log = Log()
    log.refusals = [CommitDeferred("joining")] * 1_000
    with pytest.raises(BrokerUnavailable, match="the start of orders-0 is not committed yet: joining"):
        starts(log, "latest").resolve([SOURCE], 1)
    assert log.committed == {}


def test_nothing_is_committed_for_a_partition_that_is_another_members_by_now(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    log.owned = set()
    with pytest.raises(BrokerUnavailable, match="a rebalance came between"):
        starts(log, "latest").resolve([SOURCE], 1)
    log.owned = {SOURCE}
    generations = iter([1, 2])
    monkeypatch.setattr(log, "member", lambda: MemberId(next(generations), "me", None))
    with pytest.raises(BrokerUnavailable, match="a rebalance came between"):
        starts(log, "latest").resolve([SOURCE], 1)
    assert log.committed == {}


def test_an_offset_that_was_committed_after_the_first_look_stays() -> None:
    log = Log()
    positions = starts(log, "latest")
    assert positions.missing([SOURCE], log.read([SOURCE], 1)) == {SOURCE}
    log.committed = {SOURCE: 105}  # the membership was lost, and another member owned the partition for a moment
    with pytest.raises(BrokerUnavailable, match="the start of orders-0: it was committed meanwhile; looking again"):
        positions.resolve([SOURCE], 1)
    assert log.committed == {SOURCE: 105}, "the records from 105 on are not passed over"


def test_an_end_is_committed_only_under_the_membership_under_which_offsets_were_read() -> None:
    log = Log()

    def lose_and_rejoin() -> None:
        log.before_owns = lambda: None
        log.committed = {SOURCE: 105}
        log.generation += 1

    log.before_owns = lose_and_rejoin
    with pytest.raises(BrokerUnavailable, match="the start of orders-0: it was committed meanwhile; looking again"):
        starts(log, "latest").resolve([SOURCE], 1)
    assert log.committed == {SOURCE: 105}, "the records from 105 on are not passed over"


def test_an_end_is_committed_in_place_of_an_offset_that_the_brokers_deleted() -> None:
    log = Log()
    log.committed = {SOURCE: 7}
    positions = starts(log, "latest")
    positions.lose({SOURCE: 7})
    assert positions.resolve([SOURCE], 1) == log.committed == {SOURCE: 110}


def test_a_committed_offset_counts_until_the_brokers_no_longer_hold_it() -> None:
    positions = starts(Log(), "earliest")
    assert positions.missing([SOURCE, INTERNAL], {SOURCE: 7}) == {INTERNAL}
    positions.lose({SOURCE: 7})
    assert positions.missing([SOURCE, INTERNAL], {SOURCE: 7}) == {SOURCE, INTERNAL}
    assert positions.missing([SOURCE], {SOURCE: 8}) == set()
    positions.resolve([SOURCE], 1)
    assert positions.missing([SOURCE], {SOURCE: 7}) == set(), "it was looked up since"


def fail(_task: Task, _records: Sequence[Record]) -> None:
    """End the worker before anything is committed."""
    raise ArithmeticError


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_latest_is_where_the_group_began_also_after_a_worker_that_committed_nothing(
    broker: str, tmp_path: Path, guarantee: str
) -> None:
    app = App(broker, f"latest-{guarantee.replace('_', '-')}", tmp_path)
    app.send([b"before"] * 10)
    app.sent.clear()  # no task is to see these
    settings = {"processing_guarantee": guarantee, "auto_offset_reset": "latest"}
    first = app.start(1, fail, **settings)
    first.until_running(PARTITIONS)
    app.send([b"word-%d" % (number % 7) for number in range(100)])
    assert isinstance(first.until_error(), ArithmeticError)
    first.join()
    app.start(2, count, **settings)
    app.until_counted(read_committed=guarantee == "exactly_once_v2")
    app.workers[1].stop()


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_input_whose_offsets_are_gone_begins_where_the_policy_says_and_stays_there(
    broker: str, tmp_path: Path, policy: str
) -> None:
    app = App(broker, f"gone-{policy}", tmp_path)
    app.send([b"a key"] * 10)
    first = app.start(1)
    app.until_committed()
    first.stop()
    app.send([b"a key"] * 30)  # of which the first 20 are deleted
    raw = AdminClient({"bootstrap.servers": broker})
    partition = partition_of(b"a key", PARTITIONS)
    for deleted in raw.delete_records([ClientPartition(app.name, partition, 30)]).values():
        deleted.result()
    app.sent[b"a key"] = 20 if policy == "earliest" else 10  # 10, and the 10 that are left or none
    second = app.start(2, fail, auto_offset_reset=policy)
    second.until_event(InputOutOfRangeEvent, reset=policy)
    if policy == "latest":
        second.until(lambda events: sum(isinstance(event, RunningEvent) for event in events) > PARTITIONS)
        app.send([b"a key"] * 5)  # the worker that began behind the end fails at these
    assert isinstance(second.until_error(), ArithmeticError)
    second.join()
    app.start(3, auto_offset_reset=policy)
    app.until_counted()
    app.workers[2].stop()
