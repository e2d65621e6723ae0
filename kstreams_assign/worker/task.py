"""The public side of a task: its stores and its outputs (``Task``), and the declaration of a ``Subtopology``.

Keys and values are bytes; the user's code encodes and decodes them. What must not live here: what the worker does with
a task's writes (``task_workspace``).
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Protocol

from kstreams_assign.client_settings import check_arguments, unknown_key
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition
from kstreams_assign.tasks.buffer import WriteBuffer
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.tasks.times import PartitionTime
from kstreams_assign.topology.flows import Flow, Repartition
from kstreams_assign.worker import global_views
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.given import BYTES_OR_NONE, Place
from kstreams_assign.worker.global_views import ReadOnlyKeyValueStore, ReadOnlyTimestampedKeyValueStore
from kstreams_assign.worker.on_error import OnError, check_on_error
from kstreams_assign.worker.views import KeyValueStore, TimestampedKeyValueStore


class Task:
    """Give the user's function a task's stores and outputs (Kafka: ``ProcessorContext``).

    A task is one partition of one subtopology; ``id`` names it. Reads of a store see the task's own writes at once.
    Other readers see writes after the commit; they see emitted records after it exactly once, and at least once soon
    after the function has returned. Use a task only inside the function that it is passed to.
    """

    def __init__(
        self,
        task_id: TaskId,
        shape: SubtopologyShape,
        sinks: Mapping[str, str],
        stores: TaskStores | None,
        buffer: WriteBuffer,
        at_work: AtWork,
        times: Mapping[TopicPartition, PartitionTime],
        global_tables: global_views.Views = global_views.NO_TABLES,
    ) -> None:
        self.id = task_id
        self._at_work = at_work
        self._times = times
        self._sinks = sinks
        self._shape = shape
        self._stores = stores
        self._buffer = buffer
        self._views: dict[str, KeyValueStore] = {}
        self._global_tables = global_tables

    def store(self, name: str) -> KeyValueStore:
        """Return one of the subtopology's stores. Raises ``ConfigError`` for a name that it does not declare."""
        view = self._views.get(name)
        if view is None:
            view = self._views[name] = self._open(name)
        return view

    def timestamped_store(self, name: str) -> TimestampedKeyValueStore:
        """Return a store that was declared with ``timestamped``. Raises ``ConfigError`` for another."""
        view = self.store(name)
        if not isinstance(view, TimestampedKeyValueStore):
            raise ConfigError(f"store {name!r}: keeps no timestamps; declare it as Store({name!r}, timestamped=True)")
        return view

    def global_table(self, name: str) -> ReadOnlyKeyValueStore:
        """Return a table of the worker's ``global_tables``. Raises ``ConfigError`` for a name that is not declared."""
        return global_views.global_table(self._global_tables, name)

    def timestamped_global_table(self, name: str) -> ReadOnlyTimestampedKeyValueStore:
        """Return a global table that was declared with ``timestamped``. Raises ``ConfigError`` for another."""
        return global_views.timestamped_global_table(self._global_tables, name)

    def _open(self, name: str) -> KeyValueStore:
        stores = {store.name: store for store in self._shape.stores}
        if name not in stores or self._stores is None:
            raise ConfigError(f"store {name!r}: subtopology {self.id.subtopology} declares {[*stores] or 'none'}")
        view = TimestampedKeyValueStore if stores[name].timestamped else KeyValueStore
        return view(name, self._stores, self._buffer, self._at_work, self.id)

    def partition_time(self, topic: str) -> int | None:
        """Return the newest timestamp of this task's committed records of a source topic, in milliseconds since 1970.

        It is committed with the offset, so records that another process worked on count, a Java process too (Kafka:
        ``RecordQueue.partitionTime``). None if no record was committed. Raises ``ConfigError`` for a topic that the
        task does not read.
        """
        time = self._times.get(TopicPartition(topic, self.id.partition))
        if time is None:
            raise ConfigError(
                f"topic {topic!r}: task {self.id} reads {', '.join(sorted(p.topic for p in self._times))}"
            )
        return time.time_ms

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
        """Send a record to one of the subtopology's sinks.

        At least once it leaves when the function returns, exactly once with the next commit.

        Without ``partition`` the key decides, as in Java (murmur2). ``timestamp_ms`` (since 1970) and ``headers`` are
        those of the current input record if they are left out; ``headers=()`` sends none. A repartition topic has its
        short name here. Raises ``ConfigError`` for a topic that is not among the sinks, ``TypeError`` for a key or
        value that is neither bytes nor None.
        """
        record = self._at_work.record
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
        return Place(self.id, f"output {topic!r}", self._at_work)


class Process(Protocol):
    """Type of the user's function: it takes a task and its next records, oldest first, at least one."""

    def __call__(self, task: Task, records: Sequence[Record], /) -> None:
        """Process the records with the task's stores and outputs. They are committed after the function returned."""
        ...


def _refuse_unknown_arguments(arguments: Collection[str]) -> None:
    known = {each.name for each in fields(Subtopology)}
    for key in arguments:
        if key not in known:
            raise ConfigError(f"Subtopology: {unknown_key(key, known)}")


@check_arguments(_refuse_unknown_arguments)
@dataclass(frozen=True, slots=True)
class Subtopology:
    """Declare a function with the topics that it reads, the stores that it keeps, and the topics that it writes.

    The function takes a ``Task`` and a sequence of its next records, and returns nothing::

        def count(task: Task, records: Sequence[Record]) -> None:
            counts = task.store("counts")
            for record in records:
                total = int(counts.get(record.key) or 0) + 1
                counts.put(record.key, b"%d" % total)
                task.emit("word-counts", record.key, b"%d" % total)


        Subtopology(count, sources=["words"], stores=["counts"], sinks=["word-counts"])

    - ``process``: the function.
    - ``sources``: topics to read.
    - ``stores``: names of stores, or ``Store`` with options.
    - ``sinks``: topics that ``task.emit`` may write to.
    - ``repartition_sources``: internal topics to read, by their short names.
    - ``copartitioned``: groups of sources that are joined.
    - ``sources_pattern``: regular expression for more topics to read.
    - ``on_error``: what becomes of a record for which the function raises.

    A subtopology's number is its place in the list that ``Worker`` gets. It has a task for each partition of its
    largest source. Raises ``ConfigError`` for an argument that cannot be used.
    """

    process: Process
    """Function that gets a task and its next records."""
    sources: Sequence[str] = ()
    """Topics to read: the task of partition ``p`` reads partition ``p`` of each."""
    stores: Sequence[str | Store] = ()
    """Stores, by name, or as ``Store`` with options."""
    sinks: Sequence[str] = ()
    """Topics that the function may emit to; a repartition topic of another subtopology by its short name."""
    repartition_sources: Sequence[str | Repartition] = ()
    """Repartition topics to read, by their short names; the leader creates them."""
    copartitioned: Sequence[Sequence[str]] = ()
    """Groups of sources that must have equally many partitions, as they are joined."""
    sources_pattern: str | None = None
    """Regular expression: topics whose whole name matches are read too, also those that appear later."""
    on_error: OnError = "fail"
    """What becomes of a record for which the function raises: ``fail`` ends the worker, ``skip`` goes on behind it,
    ``dead_letter`` also sends it to ``errors_dead_letter_queue_topic_name``. A function ``(record, error)`` answers one
    of these."""

    def __post_init__(self) -> None:
        _refuse_no_function(self.process)
        for key in ("sources", "repartition_sources", "sinks", "stores"):
            if isinstance(getattr(self, key), str):
                what = "stores" if key == "stores" else "topics"
                raise ConfigError(
                    f"{key} = {getattr(self, key)!r}: must be a list of {what}; write [{getattr(self, key)!r}]"
                )
        for store in self.stores:
            if not isinstance(store, str | Store):
                raise ConfigError(f"stores: {store!r}: must be a name, or a Store(...)")
        check_on_error("on_error", self.on_error)
        if not (self.sources or self.repartition_sources or self.sources_pattern):
            raise ConfigError(f"sources = {self.sources!r}: must be a list of at least one topic")

    @property
    def shape(self) -> SubtopologyShape:
        """Return what the group has to know of it, without internal topics."""
        return self.flow.shape

    @property
    def flow(self) -> Flow:
        """Return topics and stores, as they are declared."""
        return Flow.of(
            self.sources,
            self.stores,
            self.sinks,
            self.repartition_sources,
            self.copartitioned,
            self.sources_pattern,
            self.on_error,
        )


def _refuse_no_function(process: object) -> None:
    """Raise ``ConfigError`` for what cannot be called with a task and records, or would do nothing if it were."""
    required = "must be a function (task, records)"
    if not callable(process):
        raise ConfigError(f"process = {process!r}: {required}")
    name = getattr(process, "__qualname__", repr(process))
    if (
        inspect.iscoroutinefunction(process)
        or inspect.isgeneratorfunction(process)
        or inspect.isasyncgenfunction(process)
    ):
        raise ConfigError(f"process = {name}: {required} without await and yield; a call of it would not run its code")
    try:
        signature = inspect.signature(process)
    except (TypeError, ValueError):
        return  # some builtins have none
    try:
        signature.bind(None, None)
    except TypeError:
        raise ConfigError(f"process = {name}{signature}: {required}") from None
