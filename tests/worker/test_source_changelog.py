"""A store whose changelog is its source topic: nothing is written twice, and it is restored to the committed offset."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from kstreams_assign import Config, Record, Store, Subtopology, Task
from kstreams_assign.adapters.confluent import ClusterAdmin, RecordProducer
from kstreams_assign.allowed_values import GUARANTEES
from kstreams_assign.errors import CommitDeferred, KeyNotLocal
from kstreams_assign.events import RunningEvent
from tests.worker.app import PATIENCE_S, Running, until
from tests.worker.loop_in_memory import COMMIT_INTERVAL_MS, Room, source, task_of

PARTITIONS = 2
KEYS = [b"user-%d" % n for n in range(40)]


class Table:
    """An application that keeps a table of its input, and records the previous values."""

    def __init__(self, broker: str, name: str, folder: Path, ends: ExitStack) -> None:
        self.broker, self.name, self.folder, self._ends = broker, name, folder, ends
        self.admin = ClusterAdmin(broker)
        self.admin.create_topics({name: PARTITIONS}, PATIENCE_S)
        self.seen: list[tuple[bytes | None, bytes | None]] = []

    def keep(self, task: Task, records: Sequence[Record]) -> None:
        table = task.store("users")
        for record in records:
            assert record.key is not None
            assert record.value is not None
            self.seen.append((table.get(record.key), record.value))
            table.put(record.key, record.value)

    def start(self, number: int, **settings: object) -> Running:
        config = Config.from_mapping(
            {
                "application_id": f"{self.name}-app",
                "bootstrap_servers": self.broker,
                "state_dir": str(self.folder / str(number)),
                "session_timeout_ms": 30_000,
                "commit_interval_ms": 20,
                **settings,
            }
        )
        topology = [Subtopology(self.keep, sources=[self.name], stores=[Store("users", source=self.name)])]
        running = Running(config, topology)
        self._ends.callback(running.stop)
        return running

    def send(self, value: bytes) -> None:
        with closing(RecordProducer(self.broker, delivery_timeout_ms=60_000)) as producer:
            for key in KEYS:
                producer.produce(self.name, None, key, value)
            producer.flush(PATIENCE_S)


@pytest.fixture
def table(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Table]:
    with ExitStack() as ends:
        name = request.node.name.partition("[")[0].replace("_", "-")[-60:]
        yield Table(broker, f"{name}-{len(request.node.name)}", tmp_path, ends)


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_table_is_restored_to_what_is_committed_and_no_changelog_is_made(table: Table, guarantee: str) -> None:
    table.send(b"first")
    worker = table.start(1, processing_guarantee=guarantee)
    worker.until(lambda _: len(table.seen) == len(KEYS))
    worker.stop()
    table.send(b"second")
    shutil.rmtree(table.folder / "1")
    two = table.start(2, processing_guarantee=guarantee)
    two.until(lambda _: len(table.seen) == 2 * len(KEYS))
    assert set(table.seen[: len(KEYS)]) == {(None, b"first")}
    assert set(table.seen[len(KEYS) :]) == {(b"first", b"second")}, "what was not committed is not seen before its time"
    assert sum(event.restored for event in two.reported(RunningEvent)) >= len(KEYS)
    assert not [
        topic for topic in table.admin.topics(PATIENCE_S) if topic.startswith(f"{table.name}-app") and "log" in topic
    ]


def test_a_standby_follows_the_commits_and_takes_over_warm(table: Table) -> None:
    settings = {"num_standby_replicas": 1, "acceptable_recovery_lag": 0}
    first, second = table.start(1, **settings), table.start(2, **settings)
    for values in (1, 2):
        table.send(b"value-%d" % values)
        until(lambda n=values: len(table.seen) == n * len(KEYS))
        until(lambda n=values: held_by(second) == {b"value-%d" % n})
    first.stop()
    second.until_running(PARTITIONS)
    table.send(b"last")
    until(lambda: len(table.seen) == 3 * len(KEYS))
    assert set(table.seen[-len(KEYS) :]) == {(b"value-2", b"last")}


@pytest.mark.parametrize("how", ["a lost membership", "a failed delivery"])
def test_a_table_that_is_ahead_of_the_committed_offset_goes_back_with_it(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A commit that a rebalance defers is in the store, and its offset is not committed."""
    room = Room(exactly_once=False, table=True, max_poll_records=5)

    def defer(*_: object, **__: object) -> None:
        raise CommitDeferred("the group rebalances")

    room.adopt(1, [0])
    room.turn(3)
    with monkeypatch.context() as rebalance:
        rebalance.setattr(room.member, "commit", defer)
        room.put(0, 30)
        room.turn(20, after_ms=COMMIT_INTERVAL_MS)
        stores = room.stores[task_of(0)]
        assert (stores.offsets(), room.committed(0)) == ({source(0): 30}, 0)
    if how == "a lost membership":
        room.loop.drop_all(how)
        room.adopt(2, [0])
    else:
        room.put(0, 1)
        room.producer.fails_next = True
    at: list[int] = []
    room.work = lambda _partition, _offsets: at.append(stores.offsets()[source(0)])
    room.turn(30, after_ms=COMMIT_INTERVAL_MS)
    assert min(at) < 30, "the store has not gone back"
    assert room.committed(0) == room.broker.end(source(0)) == stores.offsets()[source(0)]
    assert set(room.outputs(0)) == set(range(room.committed(0)))


def held_by(running: Running) -> set[bytes | None]:
    """The values of all keys in this process, be they its own or copies; empty while it does not have all of them."""
    try:
        return {running.worker.read("users", key, allow_standby=True) for key in KEYS}
    except KeyNotLocal:
        return set()
