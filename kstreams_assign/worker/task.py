"""What the user's code gets to see: a task with its stores, and where to send results.

Keys and values are bytes; serdes are the user's. Reads see the task's own writes at once; others see them after the
commit. Used from the processing thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopologyShape
from kstreams_assign.restore.ports import TaskStores
from kstreams_assign.tasks.buffer import ABSENT, Emitted, WriteBuffer
from kstreams_assign.tasks.record import Record


class KeyValueStore:
    """A task's view of one of its stores."""

    __slots__ = ("_buffer", "_name", "_stores", "_writes")

    def __init__(self, name: str, stores: TaskStores, buffer: WriteBuffer) -> None:
        self._name = name
        self._stores = stores
        self._buffer = buffer

    def get(self, key: bytes) -> bytes | None:
        """The newest value of a key, or None."""
        buffered = self._buffer.get(self._name, key)
        return self._stores.get(self._name, key) if buffered is ABSENT else buffered  # type: ignore[return-value]

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The newest values of many keys, in their order; one look at the disk for all of them."""
        buffered = self._buffer.get_many(self._name, keys)
        missing = [key for key, value in zip(keys, buffered, strict=True) if value is ABSENT]
        stored = dict(zip(missing, self._stores.get_many(self._name, missing), strict=True)) if missing else {}
        return [
            stored[key] if value is ABSENT else value  # type: ignore[misc]
            for key, value in zip(keys, buffered, strict=True)
        ]

    def put(self, key: bytes, value: bytes) -> None:
        """Write a value. It reaches the store, the changelog and the standbys with the next commit."""
        self._buffer.put(self._name, key, value)

    def put_many(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Write many values at once; None deletes."""
        self._buffer.put_many(self._name, entries)

    def delete(self, key: bytes) -> None:
        """Remove a key (a tombstone in the changelog)."""
        self._buffer.put(self._name, key, None)

    def range(
        self, start: bytes | None = None, end: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries with ``start <= key < end`` in byte order, or the opposite with ``reverse``; a snapshot of this moment."""
        stored = self._stores.range(self._name, start, end, reverse=reverse)
        return self._buffer.overlay(self._name, stored, start, end, reverse=reverse)


class Task:
    """One task at work: ``id``, its stores, and ``emit``."""

    def __init__(
        self, task_id: TaskId, shape: SubtopologyShape, sinks: frozenset[str], stores: TaskStores | None
    ) -> None:
        self.id = task_id
        self._sinks = sinks
        self._shape = shape
        self._stores = stores
        self._buffer = WriteBuffer()
        self._views: dict[str, KeyValueStore] = {}

    def store(self, name: str) -> KeyValueStore:
        """One of the subtopology's stores. Raises ``ConfigError`` for a name it does not declare."""
        view = self._views.get(name)
        if view is None:
            view = self._views[name] = self._open(name)
        return view

    def _open(self, name: str) -> KeyValueStore:
        names = [store.name for store in self._shape.stores]
        if name not in names or self._stores is None:
            raise ConfigError(f"store {name!r}: subtopology {self.id.subtopology} declares {names or 'none'}")
        return KeyValueStore(name, self._stores, self._buffer)

    def emit(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        headers: Iterable[tuple[str, bytes]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Send a record with the next commit. Without ``partition`` Java's partitioner chooses by key.

        Raises ``ConfigError`` for a topic that is not among the subtopology's sinks.
        """
        if topic not in self._sinks:
            raise ConfigError(
                f"topic {topic!r}: subtopology {self.id.subtopology} declares the sinks {sorted(self._sinks)}"
            )
        self._buffer.emitted.append(Emitted(topic, key, value, tuple(headers), partition, timestamp_ms))

    @property
    def sinks(self) -> frozenset[str]:
        """The topics that ``emit`` takes."""
        return self._sinks

    def emit_many(self, records: Iterable[Emitted]) -> None:
        """The worker's side: send records whose topics have been checked."""
        self._buffer.emitted.extend(records)

    def take(self) -> tuple[Mapping[str, Mapping[bytes, bytes | None]], list[Emitted]]:
        """The worker's side: a commit begins."""
        return self._buffer.take()

    def landed(self) -> None:
        """The worker's side: what was taken is in the store."""
        self._buffer.landed()

    def roll_back(self) -> None:
        """The worker's side: everything since the last commit began never was."""
        self._buffer.drop()


@dataclass(frozen=True, slots=True)
class Flow:
    """What the worker must know of a subtopology: its shape for the group, and where it may write to."""

    shape: SubtopologyShape
    sinks: frozenset[str] = frozenset()

    @classmethod
    def of(cls, sources: Sequence[str], stores: Sequence[str | Store], sinks: Sequence[str]) -> Flow:
        """A store may be given by its name."""
        named = tuple(store if isinstance(store, Store) else Store(store) for store in stores)
        return cls(SubtopologyShape(tuple(sources), named), frozenset(sinks))


Process = Callable[[Task, Sequence[Record]], None]
"""The user's code: called with a task and its next records, oldest first, at least one."""


@dataclass(frozen=True, slots=True)
class Subtopology:
    """Topics in, stores, topics out, and the code between. A subtopology's number is its place in the list.

    ``sources`` are copartitioned: the task of partition ``p`` reads partition ``p`` of each.
    A store may be given by name; ``Store(name, logged=False)`` keeps no changelog.
    """

    process: Process
    sources: Sequence[str]
    stores: Sequence[str | Store] = ()
    sinks: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.sources or isinstance(self.sources, str):
            raise ConfigError(f"sources = {self.sources!r}: must be a list of at least one topic")

    @property
    def shape(self) -> SubtopologyShape:
        return self.flow.shape

    @property
    def flow(self) -> Flow:
        return Flow.of(self.sources, self.stores, self.sinks)


def topology_shape(flows: Sequence[Flow]) -> TopologyShape:
    """What the group must know of the topology. Raises ``ConfigError`` for none, or a store name used twice."""
    shape = TopologyShape(tuple(flow.shape for flow in flows))
    names = [store.name for sub in shape.subtopologies for store in sub.stores]
    twice = sorted({name for name in names if names.count(name) > 1})
    if not flows or twice:
        raise ConfigError(f"topology: {'store names used twice: ' + ', '.join(twice) if twice else 'is empty'}")
    return shape
