"""The real processing loop on a broker in memory, turned by the test, with a clock that the test moves.

Each task reads one partition of ``in``, counts its records in the store ``totals``, and writes the offset of each to
its partition of ``out``. With ``table`` the changelog of the store is ``in``. A test may let the producer hold back
its acknowledgements, or fail the next one. ``deletions`` gets the requests to delete what is consumed of ``in``.
``tasks``: those that have worked, by partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future

from kstreams_assign import Config, Record, Store, Task, TaskId, TopicPartition
from kstreams_assign.group import member as machine
from kstreams_assign.group.values import Adopted
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.tasks.buffer import Row
from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.tasks.times import Position
from kstreams_assign.testing.around import DirectCalls, DirectRestore, DriverClock, NoDeletions, NoFolders, OnlyMember
from kstreams_assign.testing.broker import MemoryBroker
from kstreams_assign.testing.clients import MemoryInputs, MemoryProducer, MemoryTransactions
from kstreams_assign.topology.flows import Flow, topology_shape
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.labour import Functions
from kstreams_assign.worker.neighbours import Restoring
from kstreams_assign.worker.processing import Processor
from kstreams_assign.worker.purging import Deletions, Purging

COMMIT_INTERVAL_MS = 100

Work = Callable[[int, Sequence[int]], None]
"""What a test does inside the user's function: the partition, and the offsets of the batch."""


def source(partition: int) -> TopicPartition:
    return TopicPartition("in", partition)


def task_of(partition: int) -> TaskId:
    return TaskId(0, partition)


class Holding(MemoryProducer):
    """``holds``: nothing is acknowledged."""

    holds = False

    def acknowledged(self) -> Mapping[TopicPartition, int] | None:  # type: ignore[override]
        return None if self.holds else super().acknowledged()


class Producer(Holding):
    """At least once. ``dropped``: how often the rest of a commit was."""

    dropped = 0

    def abandon(self) -> None:
        self.dropped += 1
        super().abandon()


class Transactions(Holding, MemoryTransactions):
    """Exactly once."""


class Member(OnlyMember):
    """``is_joined`` is the test's; ``heard``: what the loop has reported."""

    def __init__(self, broker: MemoryBroker, lease_s: float) -> None:
        super().__init__(broker, lease_s)
        self.is_joined = True
        self.heard: list[machine.Event] = []

    def joined(self) -> bool:
        return self.is_joined

    def handle(self, event: machine.Event) -> None:
        self.heard.append(event)


class Room:
    """A loop with its neighbours."""

    def __init__(
        self,
        *,
        exactly_once: bool,
        table: bool = False,
        partitions: int = 2,
        work: Work = lambda _partition, _offsets: None,
        restoring: Restoring | None = None,
        deletions: Deletions | None = None,
        max_poll_records: int = 500,
    ) -> None:
        self.work = work
        self.tasks: dict[int, Task] = {}
        self.broker = MemoryBroker()
        for topic in ("in", "out", "app-totals-changelog"):
            self.broker.create(topic, partitions)
        self.clock = DriverClock(1_000_000)
        clocks = self.clock.clocks()
        config = Config(
            application_id="app",
            bootstrap_servers="localhost:1",
            commit_interval_ms=COMMIT_INTERVAL_MS,
            max_poll_records=max_poll_records,
            processing_guarantee="exactly_once_v2" if exactly_once else "at_least_once",
        )
        self.producer = (Transactions if exactly_once else Producer)(self.broker, clocks.wall_ms)
        flow = Flow.of(["in"], [Store("totals", source="in") if table else "totals"], ["out"])
        sources = frozenset({"in"}) if table else frozenset[str]()
        self.stores = {task_of(number): MemoryStores(["totals"], sources) for number in range(partitions)}
        self.labour = Functions([self._count], config, now_ms=clocks.monotonic_ms)
        log = EventLog("process", None, clocks.wall_ms)
        self.loop = Processor(
            config,
            [flow],
            topology_shape([flow]),
            self.labour,
            MemoryInputs(self.broker),
            self.producer,
            NoFolders(),
            OffsetSums(),
            Purging({"in"}, 30_000, deletions or NoDeletions(), clocks.monotonic_ms, log),
            log,
            clocks,
        )
        self.member = Member(self.broker, config.session_timeout_ms / 1000)
        direct = DirectRestore(self.broker, self.stores)
        direct.loop = self.loop
        self.loop.connect(self.member, restoring or direct, lambda _positions: None, DirectCalls())
        self.labour.connect(self.loop, lambda: None)  # type: ignore[arg-type, return-value]

    def _count(self, task: Task, records: Sequence[Record]) -> None:
        self.tasks[task.id.partition] = task
        totals = task.store("totals")
        totals.put(b"n", b"%d" % (int(totals.get(b"n") or 0) + len(records)))
        for record in records:
            task.emit("out", b"k", b"%d" % record.offset, partition=task.id.partition)
        self.work(task.id.partition, [record.offset for record in records])

    def adopt(self, generation: int, partitions: Iterable[int]) -> None:
        active = {task_of(number): (source(number),) for number in partitions}
        self.loop.adopt(generation, Adopted(active, frozenset(), frozenset()))

    def put(self, partition: int, count: int) -> None:
        row: Row = ("in", b"k", b"v", (), partition, 1)
        for _ in range(count):
            self.broker.append(row, by_topology=False)

    def turn(self, times: int = 1, *, after_ms: int = 0) -> None:
        """Turn the loop; each time ``after_ms`` pass before."""
        for _ in range(times):
            self.clock.advance(after_ms)
            self.loop.turn(wait=False)

    def pause(self, partition: int, *, paused: bool) -> Future[tuple[TaskId, ...]]:
        answer: Future[tuple[TaskId, ...]] = Future()
        self.loop.pause(task_of(partition), answer, paused=paused)
        return answer

    def committed(self, partition: int) -> int:
        return self.broker.committed.get(source(partition), Position(0)).offset

    def outputs(self, partition: int) -> list[int]:
        """Return what readers of the output have, in order."""
        return [int(record.value or b"") for record in self.broker.records(TopicPartition("out", partition), 0, 10**6)]

    def total(self, partition: int) -> int:
        return int(self.stores[task_of(partition)].get("totals", b"n") or 0)
