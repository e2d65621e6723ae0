"""Key lookup (interactive queries): which process has a key, and its newest committed value if it is this process.

The host maps of the last assignment name the owners by their ``application_server``; the program asks another process
by itself (Kafka Streams: ``KafkaStreams.queryMetadataForKey``). The thread that has the task's stores reads them: the
processing loop for a running task, the restore thread for a standby or a warm-up. So two threads never use one store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.errors import ConfigError, KeyNotLocal
from kstreams_assign.group.values import Hosts
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.tasks.expiry import horizon
from kstreams_assign.tasks.stamped import value_and_time
from kstreams_assign.worker.locating import locate, partition_of

Topology = tuple[TopologyShape, Mapping[str, int]]
"""The subtopologies as they are now, and the partition counts of their sources."""


class Reading(NamedTuple):
    """What a store has of a key, and the next offset of each changelog that a replica reads; of a running task none."""

    value: bytes | None
    positions: Mapping[TopicPartition, int]


class StoreReader(Protocol):
    """A thread that has tasks' stores."""

    def peek(self, task: TaskId, store: str, key: bytes, answer: Future[Reading | None]) -> None:
        """Ask for a value as it is in the store; the answer is None if this thread does not have the task's stores."""
        ...


@dataclass(frozen=True, slots=True)
class Location:
    """Where a key is (Kafka: ``KeyQueryMetadata``)."""

    task: TaskId
    """Task that has the key."""
    active: str | None
    """Endpoint (``HOST:PORT``) of the process with the active task; None if it has no ``application_server``."""
    standbys: tuple[str, ...]
    """Endpoints of the processes with a standby; none for a store without a changelog, which no other process has."""


class _Place(NamedTuple):
    """Where a store is declared, and how many partitions it has."""

    subtopology: int
    shape: SubtopologyShape
    declared: Store
    partitions: int


class Lookup:
    """Answer look-ups from any thread. ``hosts`` returns the active and the standby host map of the last assignment."""

    def __init__(
        self,
        topology: Callable[[], Topology],
        hosts: Callable[[], tuple[Hosts, Hosts]],
        running: StoreReader,
        replicas: StoreReader,
    ) -> None:
        self._topology = topology
        self._hosts = hosts
        self._running = running
        self._replicas = replicas

    def locate(self, store: str, key: bytes) -> Location:
        """Return where the key is. Raises ``ConfigError`` for a store that the topology does not declare."""
        return self.locate_partition(store, key, None)

    def locate_partition(self, store: str, key: bytes, partition: int | None) -> Location:
        """As ``locate``, for keys that are not partitioned as Java's default partitioner does if one is given.

        Raises ``ConfigError`` also for a partition that the store does not have.
        """
        number, sub, declared, partitions = self._place(store)
        if partition is not None and partition >= partitions:
            raise ConfigError(f"partition = {partition}: store {store!r} has partitions 0 to {partitions - 1}")
        where = partition_of(key, partitions) if partition is None else partition
        endpoints = locate(sub, where, *self._hosts())
        standbys = tuple(endpoints["standbys"]) if declared.logged else ()
        return Location(TaskId(number, where), endpoints["active"], standbys)

    def read(self, store: str, key: bytes, *, allow_standby: bool, timeout_s: float) -> bytes | None:
        """Return the committed value here. Raises ``KeyNotLocal``, which names the process that has it."""
        where = self.locate(store, key)
        has_replicas = self._place(store).declared.logged
        for reader in (self._running, self._replicas) if allow_standby and has_replicas else (self._running,):
            try:
                reading = peek(reader, where.task, store, key, timeout_s)
            except TimeoutError as late:
                raise KeyNotLocal(f"task {where.task}: no answer in {timeout_s:.1f} s") from late
            if reading is not None:
                return self.shown(store, reading.value)[0]
        others = ", ".join(where.standbys) or "none known"
        raise KeyNotLocal(
            f"task {where.task} does not run in this process; active: {where.active or 'unknown'}; standbys: {others}"
        )

    def shown(self, store: str, stored: bytes | None) -> tuple[bytes | None, int | None]:
        """Return a stored value and its time, in milliseconds, if the store keeps times.

        A value that has expired by the wall clock is not shown. The owner leaves out what has expired by stream time,
        which a replica does not know.
        """
        declared = self._place(store).declared
        if stored is None or not declared.timestamped:
            return stored, None
        if declared.ttl_ms is None or declared.ttl_clock != "wall" or stored >= horizon(wall_ms(), declared.ttl_ms):
            return value_and_time(stored)
        return None, None

    def _place(self, store: str) -> _Place:
        shape, counts = self._topology()
        for number, sub in enumerate(shape.subtopologies):
            for declared in sub.stores:
                if declared.name == store:
                    partitions = max((counts.get(source, 1) for source in sub.sources), default=1)
                    return _Place(number, sub, declared, partitions)
        names = [each.name for sub in shape.subtopologies for each in sub.stores]
        raise ConfigError(f"store = {store!r}: no such store; the topology declares {', '.join(names) or 'none'}")


def peek(reader: StoreReader, task: TaskId, store: str, key: bytes, timeout_s: float) -> Reading | None:
    """Return what the thread's store has of a key. Raises ``TimeoutError`` if the thread does not get to it in time."""
    answer: Future[Reading | None] = Future()
    reader.peek(task, store, key, answer)
    try:
        return answer.result(timeout_s)
    finally:
        answer.cancel()  # the thread then skips it
