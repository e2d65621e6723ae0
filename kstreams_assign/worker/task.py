"""What the user's code gets to see: a task with its stores, and where to send results.

Keys and values are bytes; serdes are the user's. Reads see the task's own writes at once; others see them after the
commit. What is written carries the time of the record at work (``at_work``), and what is sent its headers too, unless told
otherwise. Used from the processing thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition
from kstreams_assign.restore.ports import TaskStores
from kstreams_assign.tasks.buffer import Emitted, Taken, WriteBuffer
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.times import PartitionTime
from kstreams_assign.topology.flows import Flow, Repartition
from kstreams_assign.worker.at_work import AtWork, Batch
from kstreams_assign.worker.given import BYTES_OR_NONE, Place
from kstreams_assign.worker.views import KeyValueStore, TimestampedKeyValueStore


class Task:
    """One task at work: ``id``, its stores, and ``emit``."""

    def __init__(
        self,
        task_id: TaskId,
        shape: SubtopologyShape,
        sinks: Mapping[str, str],
        stores: TaskStores | None,
        at_work: AtWork,
        times: Mapping[TopicPartition, PartitionTime],
    ) -> None:
        self.id = task_id
        self.at_work = at_work
        self._times = times
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

    def timestamped_store(self, name: str) -> TimestampedKeyValueStore:
        """As ``store``, for one that was declared with ``timestamped``; raises ``ConfigError`` for another."""
        view = self.store(name)
        if not isinstance(view, TimestampedKeyValueStore):
            raise ConfigError(f"store {name!r}: keeps no timestamps; declare it as Store({name!r}, timestamped=True)")
        return view

    def _open(self, name: str) -> KeyValueStore:
        stores = {store.name: store for store in self._shape.stores}
        if name not in stores or self._stores is None:
            raise ConfigError(f"store {name!r}: subtopology {self.id.subtopology} declares {[*stores] or 'none'}")
        view = TimestampedKeyValueStore if stores[name].timestamped else KeyValueStore
        return view(name, self._stores, self._buffer, self.at_work, self.id)

    def partition_time(self, topic: str) -> int | None:
        """The newest timestamp (ms) among the committed records of this task's partition of a source, whoever worked on them, Java too.

        None: nobody has said. Raises ``ConfigError`` for a topic that the task does not read.
        """
        found = self._times.get(TopicPartition(topic, self.id.partition))
        if found is None:
            raise ConfigError(
                f"topic {topic!r}: task {self.id} reads {', '.join(sorted(p.topic for p in self._times))}"
            )
        return found.time_ms

    def emit(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        headers: Iterable[tuple[str, bytes | None]] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Send a record with the next commit. Without ``partition`` Java's partitioner chooses by key.

        Without ``timestamp_ms`` and ``headers`` it takes those of the record at work, as in Java; ``headers=()`` drops them.
        A repartition topic goes by its short name. Raises ``ConfigError`` for a topic that is not among the
        subtopology's sinks, and ``TypeError`` for what is not bytes.
        """
        record = self.at_work.record
        to = self._sinks.get(topic)
        if to is None:
            raise ConfigError(
                f"topic {topic!r}: subtopology {self.id.subtopology} declares the sinks {sorted(self._sinks)}"
            )
        if type(key) not in BYTES_OR_NONE or type(value) not in BYTES_OR_NONE:
            self._place(topic).check("key", (key,), BYTES_OR_NONE)
            self._place(topic).check("value", (value,), BYTES_OR_NONE)
        if headers is not None:
            headers = self._place(topic).headers(headers)
        elif record.headers:
            headers = tuple(record.headers)
        else:
            headers = ()
        if partition is not None:
            partition = self._place(topic).number("partition", partition, "the number of one of the topic's partitions")
        if timestamp_ms is None:
            timestamp_ms = record.timestamp_ms
        else:
            timestamp_ms = self._place(topic).number("timestamp_ms", timestamp_ms, ">= 0, milliseconds since 1970")
        buffer = self._buffer
        buffer.emitted.append((to, key, value, headers, partition, timestamp_ms))
        buffer.emitted_bytes += (0 if key is None else len(key)) + (0 if value is None else len(value))

    def _place(self, topic: str) -> Place:
        return Place(self.id, f"output {topic!r}", self.at_work)

    @property
    def sinks(self) -> Mapping[str, str]:
        """The names that ``emit`` takes, each with its topic."""
        return self._sinks

    def emit_many(self, records: Iterable[Emitted]) -> None:
        """The worker's side: send records whose topics, by the names that ``emit`` takes, have been checked."""
        checked = list(records)
        for record in checked:
            if type(record.key) not in BYTES_OR_NONE or type(record.value) not in BYTES_OR_NONE:
                self._place(record.topic).check("key or value", (record.key, record.value), BYTES_OR_NONE)
        self._buffer.emit_many(
            [
                (self._sinks[topic], key, value, headers, partition, timestamp_ms)
                for topic, key, value, headers, partition, timestamp_ms in checked
            ]
        )

    def batch(self, records: Sequence[Record]) -> Batch:
        """The worker's side: these are worked on next."""
        return Batch(records, self.at_work)

    def waiting_bytes(self) -> int:
        """The worker's side: the bytes of keys and values that were written and sent since the last commit began."""
        return self._buffer.size_bytes()

    def take(self) -> Taken:
        """The worker's side: a commit begins."""
        return self._buffer.take()

    def landed(self) -> None:
        """The worker's side: what was taken is in the store."""
        self._buffer.landed()

    def roll_back(self) -> None:
        """The worker's side: everything since the last commit began never was."""
        self._buffer.drop()


Process = Callable[[Task, Sequence[Record]], None]
"""The user's code: called with a task and its next records, oldest first, at least one."""


@dataclass(frozen=True, slots=True)
class Subtopology:
    """Topics in, stores, topics out, and the code between. A subtopology's number is its place in the list.

    The task of partition ``p`` reads partition ``p`` of each source; those in a group of ``copartitioned`` must have equally many
    partitions. ``repartition_sources`` are topics of the application's own, which the leader makes: another subtopology names
    them, by their short names, among its ``sinks``.
    With ``sources_pattern`` it also reads every topic whose whole name matches, those that appear later included.
    A store may be given by name; ``Store(name, logged=False)`` keeps no changelog.
    """

    process: Process
    sources: Sequence[str] = ()
    stores: Sequence[str | Store] = ()
    sinks: Sequence[str] = ()
    repartition_sources: Sequence[str | Repartition] = ()
    copartitioned: Sequence[Sequence[str]] = ()
    sources_pattern: str | None = None

    def __post_init__(self) -> None:
        for key in ("sources", "repartition_sources"):
            if isinstance(getattr(self, key), str):
                raise ConfigError(f"{key} = {getattr(self, key)!r}: must be a list of topics")
        if not (self.sources or self.repartition_sources or self.sources_pattern):
            raise ConfigError(f"sources = {self.sources!r}: must be a list of at least one topic")

    @property
    def shape(self) -> SubtopologyShape:
        """Without internal topics, whose names need the application's."""
        return self.flow.shape

    @property
    def flow(self) -> Flow:
        return Flow.of(
            self.sources, self.stores, self.sinks, self.repartition_sources, self.copartitioned, self.sources_pattern
        )
