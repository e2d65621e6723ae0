"""Key lookup (interactive queries): which process has a key, and its newest committed value if it is this process.

The host maps of the last assignment name the owners by their ``application_server``; the program asks another process
by itself (Kafka Streams: ``KafkaStreams.queryMetadataForKey``). The thread that has the task's stores reads them: the
processing loop for a running task, the restore thread for a standby or a warm-up. So two threads never use one store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.errors import ConfigError, KeyNotLocal
from kstreams_assign.group.values import Hosts
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopologyShape
from kstreams_assign.tasks.expiry import horizon
from kstreams_assign.tasks.stamped import value_of
from kstreams_assign.worker.locating import locate, partition_of

Value = tuple[bytes | None]
"""The value of a key, or None for a key without a value, in a tuple; None without a tuple means: the task is not
here."""


Topology = tuple[TopologyShape, Mapping[str, int]]
"""The subtopologies as they are now, and the partition counts of their sources."""


class StoreReader(Protocol):
    """A thread that has tasks' stores."""

    def peek(self, task: TaskId, store: str, key: bytes, answer: Future[Value | None]) -> None:
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
    """Endpoints of the processes with a standby."""


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
        number, sub, partitions = self._place(store)
        task = TaskId(number, partition_of(key, partitions))
        endpoints = locate(sub, partitions, key, *self._hosts())
        return Location(task, endpoints["active"], tuple(endpoints["standbys"]))

    def read(self, store: str, key: bytes, *, allow_standby: bool, timeout_s: float) -> bytes | None:
        """Return the committed value here. Raises ``KeyNotLocal``, which names the process that has it."""
        where = self.locate(store, key)
        sub = self._topology()[0].subtopologies[where.task.subtopology]
        (declared,) = (each for each in sub.stores if each.name == store)
        for reader in (self._running, self._replicas) if allow_standby else (self._running,):
            answer: Future[Value | None] = Future()
            reader.peek(where.task, store, key, answer)
            try:
                value = answer.result(timeout_s)
            except TimeoutError as late:
                raise KeyNotLocal(f"task {where.task}: no answer in {timeout_s:.1f} s") from late
            if value is not None:
                return None if value[0] is None else _shown(declared, value[0])
        others = ", ".join(where.standbys) or "none known"
        raise KeyNotLocal(
            f"task {where.task} does not run in this process; active: {where.active or 'unknown'}; standbys: {others}"
        )

    def _place(self, store: str) -> tuple[int, SubtopologyShape, int]:
        shape, counts = self._topology()
        for number, sub in enumerate(shape.subtopologies):
            if store in [each.name for each in sub.stores]:
                return number, sub, max((counts.get(source, 1) for source in sub.sources), default=1)
        names = [each.name for sub in shape.subtopologies for each in sub.stores]
        raise ConfigError(f"store = {store!r}: no such store; the topology declares {', '.join(names) or 'none'}")


def _shown(store: Store, stored: bytes) -> bytes | None:
    """Return a value without its time; None for one that has expired by the wall clock.

    The owner leaves out what has expired by stream time, which a standby does not know.
    """
    if store.ttl_ms is not None and store.ttl_clock == "wall" and stored < horizon(wall_ms(), store.ttl_ms):
        return None
    return value_of(stored) if store.timestamped else stored
