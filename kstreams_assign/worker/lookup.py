"""Key lookup (interactive queries): which process has a key, and its newest committed value where it is this one.

The host maps of the last assignment name the owners by their ``application_server``; what a program does with another process's
endpoint is its own (Kafka Streams: ``KafkaStreams.queryMetadataForKey``). A read is carried out by the thread that has the
task's stores, the processing loop for a running task and the restore thread for a copy, so no store is used by two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from kstreams_assign.errors import ConfigError, KeyNotLocal
from kstreams_assign.group.values import Hosts
from kstreams_assign.model import SubtopologyShape, TaskId, TopologyShape
from kstreams_assign.tasks.stamped import value_of
from kstreams_assign.worker.locating import locate, partition_of

Value = tuple[bytes | None]
"""A value that was read, or that the key has none, in a tuple: without it the task is not here."""


Topology = tuple[TopologyShape, Mapping[str, int]]
"""The subtopologies as they are now, and how many partitions their sources have."""


class Shelf(Protocol):
    """A thread that has stores."""

    def peek(self, task: TaskId, store: str, key: bytes, found: Future[Value | None]) -> None:
        """Leave an order: the value as it is in the store, or None where the task's stores are not with this thread."""
        ...


@dataclass(frozen=True, slots=True)
class Location:
    """Where a key is: its task, and the endpoints (HOST:PORT) of its owner and of those with a standby."""

    task: TaskId
    active: str | None
    standbys: tuple[str, ...]


class Lookup:
    """Answers from any thread. ``hosts`` gives the active and the standby host map of the last assignment."""

    def __init__(
        self,
        topology: Callable[[], Topology],
        hosts: Callable[[], tuple[Hosts, Hosts]],
        running: Shelf,
        copies: Shelf,
    ) -> None:
        self._topology = topology
        self._hosts = hosts
        self._running = running
        self._copies = copies

    def locate(self, store: str, key: bytes) -> Location:
        """Who has the key. Raises ``ConfigError`` for a store that the topology lacks."""
        number, sub, partitions = self._place(store)
        task = TaskId(number, partition_of(key, partitions))
        told = locate(sub, partitions, key, *self._hosts())
        return Location(task, told["active"], tuple(told["standbys"]))

    def read(self, store: str, key: bytes, *, allow_standby: bool, timeout_s: float) -> bytes | None:
        """The committed value here; raises ``KeyNotLocal``, which says where it is."""
        where = self.locate(store, key)
        timestamped = store in self._topology()[0].subtopologies[where.task.subtopology].timestamped
        for shelf in (self._running, self._copies) if allow_standby else (self._running,):
            found: Future[Value | None] = Future()
            shelf.peek(where.task, store, key, found)
            try:
                value = found.result(timeout_s)
            except TimeoutError as late:
                raise KeyNotLocal(f"task {where.task}: no answer in {timeout_s:.1f} s") from late
            if value is not None:
                return value[0] if value[0] is None or not timestamped else value_of(value[0])
        others = ", ".join(where.standbys) or "none is known"
        raise KeyNotLocal(
            f"task {where.task} does not run here; active: {where.active or 'not known'}; standbys: {others}"
        )

    def _place(self, store: str) -> tuple[int, SubtopologyShape, int]:
        shape, counts = self._topology()
        for number, sub in enumerate(shape.subtopologies):
            if store in [one.name for one in sub.stores]:
                return number, sub, max((counts.get(source, 1) for source in sub.sources), default=1)
        names = [one.name for sub in shape.subtopologies for one in sub.stores]
        raise ConfigError(f"store = {store!r}: the topology declares {', '.join(names) or 'none'}")
