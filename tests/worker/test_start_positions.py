"""Input that nobody has committed begins where it began first, whatever fails after that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from kstreams_assign import Config, Record, Task, TopicPartition
from kstreams_assign.errors import BrokerUnavailable, CommitDeferred, CommitRefused
from kstreams_assign.worker.start_positions import StartPositions
from tests.worker.app import PARTITIONS, App, count

SOURCE, INTERNAL = TopicPartition("orders", 0), TopicPartition("app-words-repartition", 0)


class Log:
    """A log that grows each time its end is looked up, and a group that keeps what is committed, or refuses."""

    def __init__(self) -> None:
        self.end = 100
        self.refusal: Exception | None = None
        self.committed: dict[TopicPartition, int] = {}

    def start_offsets(self, partitions: Iterable[TopicPartition], _timeout_s: float) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, 5)

    def end_offsets(self, partitions: Iterable[TopicPartition], _timeout_s: float) -> Mapping[TopicPartition, int]:
        self.end += 10
        return dict.fromkeys(partitions, self.end)

    def commit(
        self, offsets: Mapping[TopicPartition, int], _timeout_s: float, _metadata: Mapping[TopicPartition, str]
    ) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.committed |= offsets


def starts(log: Log, policy: str) -> StartPositions:
    config = Config(application_id="app", bootstrap_servers="localhost:1", auto_offset_reset=policy)
    return StartPositions(config, {INTERNAL.topic}, log, log.commit)


def test_an_end_is_committed_before_anything_is_read() -> None:
    log = Log()
    assert starts(log, "latest").resolve([SOURCE, INTERNAL], 1) == {SOURCE: 110, INTERNAL: 5}
    assert log.committed == {SOURCE: 110}


def test_a_start_needs_no_commit() -> None:
    log = Log()
    assert starts(log, "earliest").resolve([SOURCE, INTERNAL], 1) == {SOURCE: 5, INTERNAL: 5}
    assert log.committed == {}


@pytest.mark.parametrize("refusal", [CommitDeferred("joining"), CommitRefused("over"), BrokerUnavailable("away")])
def test_an_end_that_could_not_be_committed_is_not_looked_up_again(refusal: Exception) -> None:
    log = Log()
    positions = starts(log, "latest")
    log.refusal = refusal
    for _ in range(3):
        with pytest.raises(type(refusal)):
            positions.resolve([SOURCE], 1)
    log.refusal = None
    assert positions.resolve([SOURCE], 1) == {SOURCE: 110}
    assert positions.resolve([SOURCE], 1) == {SOURCE: 120}, "the next time is another question"


def test_who_waits_for_a_rebalance_waits_no_longer_than_asked() -> None:
    log = Log()
    log.refusal = CommitDeferred("joining")
    with pytest.raises(BrokerUnavailable, match="start positions are not committed yet: joining"):
        starts(log, "latest").resolve_patiently([SOURCE], 0.2)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_latest_is_where_the_group_began_also_after_a_worker_that_committed_nothing(
    broker: str, tmp_path: Path, guarantee: str
) -> None:
    def fail(_task: Task, _records: Sequence[Record]) -> None:
        raise ArithmeticError

    app = App(broker, f"latest-{guarantee.replace('_', '-')}", tmp_path)
    app.send([b"before"] * 10)
    app.sent.clear()  # nobody is to see these
    settings = {"processing_guarantee": guarantee, "auto_offset_reset": "latest"}
    first = app.start(1, fail, **settings)
    first.until_running(PARTITIONS)
    app.send([b"word-%d" % (number % 7) for number in range(100)])
    assert isinstance(first.until_error(), ArithmeticError)
    first.join()
    app.start(2, count, **settings)
    app.until_counted(read_committed=guarantee == "exactly_once_v2")
    app.workers[1].stop()
