"""The public side of a task: its stores and its outputs (``Task``), and the declaration of a ``Subtopology``.

Keys and values are bytes; with ``key`` and ``value`` serdes code them. What must not live here: what the worker does
with a task's writes (``task_workspace``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import repeat
from typing import Any, Protocol, TypeVar, overload

from kstreams_assign.client_settings import check_arguments, unknown_key
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition
from kstreams_assign.serdes.named import serde_of
from kstreams_assign.serdes.serde import Serde
from kstreams_assign.tasks.buffer import WriteBuffer
from kstreams_assign.tasks.punctuation import Punctuation
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.tasks.timers import Timer
from kstreams_assign.tasks.times import PartitionTime
from kstreams_assign.topology.flows import Flow, KeyedTimers, Repartition, TimersClock, check_in_time_order
from kstreams_assign.worker import global_views
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.batch import Batch
from kstreams_assign.worker.expiring_view import ExpiringKeyValueStore
from kstreams_assign.worker.given import BYTES_OR_NONE, MILLISECONDS, PARTITIONS, Place
from kstreams_assign.worker.global_views import ReadOnlyKeyValueStore, ReadOnlyTimestampedKeyValueStore
from kstreams_assign.worker.on_error import OnError, check_on_error
from kstreams_assign.worker.timing import Timers, Timing
from kstreams_assign.worker.typed import Sink, TypedKeyValueStore, TypedTimestampedKeyValueStore, typed_view
from kstreams_assign.worker.user_functions import refuse_no_function
from kstreams_assign.worker.views import KeyValueStore, TimestampedKeyValueStore

K = TypeVar("K")
V = TypeVar("V")
TYPED_VIEWS_MAX = 256
"""Typed views that a task keeps: they hold no state, and a function may make new serdes in each call."""
_NO_HORIZONS: Mapping[str, Callable[[], bytes]] = {}


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
        timing: Timing,
        application_id: str = "",
        horizons: Mapping[str, Callable[[], bytes]] = _NO_HORIZONS,
        global_tables: global_views.Views = global_views.NO_TABLES,
    ) -> None:
        self.id = task_id
        self._timing = timing
        self._at_work = at_work
        self._times = times
        self._horizons = horizons
        self._sinks = sinks
        self._shape = shape
        self._stores = stores
        self._buffer = buffer
        self._application_id = application_id
        self._views: dict[str, KeyValueStore] = {}
        self._typed: dict[tuple[object, ...], Any] = {}
        self._global_tables = global_tables

    @overload
    def store(self, name: str) -> KeyValueStore: ...
    @overload
    def store(self, name: str, *, key: type[K] | Serde[K], value: type[V] | Serde[V]) -> TypedKeyValueStore[K, V]: ...
    def store(
        self, name: str, *, key: type[K] | Serde[K] | None = None, value: type[V] | Serde[V] | None = None
    ) -> KeyValueStore | TypedKeyValueStore[K, V]:
        """Return one of the subtopology's stores.

        Without more it takes and returns bytes. ``key`` and ``value`` are serdes, or Python types that stand for some:
        ``str`` (UTF-8), ``int`` (Java's Long), ``float`` (Java's Double), ``bytes``, ``bool``, ``UUID``, a dataclass
        (JSON). Raises ``ConfigError`` for a name that the subtopology does not declare, and for other types.
        """
        if key is not None or value is not None:
            return self._typed_store(name, key, value)
        view = self._views.get(name)
        if view is None:
            view = self._views[name] = self._open(name)
        return view

    @overload
    def timestamped_store(self, name: str) -> TimestampedKeyValueStore: ...
    @overload
    def timestamped_store(
        self, name: str, *, key: type[K] | Serde[K], value: type[V] | Serde[V]
    ) -> TypedTimestampedKeyValueStore[K, V]: ...
    def timestamped_store(
        self, name: str, *, key: type[K] | Serde[K] | None = None, value: type[V] | Serde[V] | None = None
    ) -> TimestampedKeyValueStore | TypedTimestampedKeyValueStore[K, V]:
        """Return what ``store`` returns, for a store with ``timestamped``. Raises ``ConfigError`` for another."""
        view = self.store(name)
        if not isinstance(view, TimestampedKeyValueStore):
            raise ConfigError(f"store {name!r}: keeps no timestamps; declare it as Store({name!r}, timestamped=True)")
        if key is None and value is None:
            return view
        typed = self._typed_store(name, key, value)
        assert isinstance(typed, TypedTimestampedKeyValueStore), "as its view is"
        return typed

    def sink(self, topic: str, *, key: type[K] | Serde[K], value: type[V] | Serde[V]) -> Sink[K, V]:
        """Return one of the subtopology's sinks, to emit Python values to it.

        ``key`` and ``value`` are as for ``store``. Raises ``ConfigError`` for a topic that is not among the sinks, and
        for other types.
        """
        slot = ("sink", topic, key, value)
        sink: Sink[K, V] | None = self._typed.get(slot)
        if sink is None:
            key_serde, value_serde = serde_of("key", key), serde_of("value", value)
            where = f"task {self.id}, output {topic!r}"
            sink = Sink(self, topic, key_serde, value_serde, self._sink(topic), where, self._at_work)
            self._keep(slot, sink)
        return sink

    def _typed_store(
        self, name: str, key: type[K] | Serde[K] | None, value: type[V] | Serde[V] | None
    ) -> TypedKeyValueStore[K, V]:
        slot = ("store", name, key, value)
        view: TypedKeyValueStore[K, V] | None = self._typed.get(slot)
        if view is None:
            key_serde, value_serde = serde_of("key", key), serde_of("value", value)
            store = self.store(name)
            changelog = next(each for each in self._shape.stores if each.name == name).changelog(self._application_id)
            where = f"task {self.id}, store {name!r}"
            view = typed_view(store, key_serde, value_serde, changelog, where, self._at_work)
            self._keep(slot, view)
        return view

    def _keep(self, slot: tuple[object, ...], view: Any) -> None:
        """Keep a typed view for the next calls; make room by forgetting the others."""
        if len(self._typed) >= TYPED_VIEWS_MAX:
            self._typed.clear()
        self._typed[slot] = view

    def global_table(self, name: str) -> ReadOnlyKeyValueStore:
        """Return a table of the worker's ``global_tables``. Raises ``ConfigError`` for a name that is not declared."""
        return global_views.global_table(self._global_tables, name)

    def timestamped_global_table(self, name: str) -> ReadOnlyTimestampedKeyValueStore:
        """Return a global table that was declared with ``timestamped``. Raises ``ConfigError`` for another."""
        return global_views.timestamped_global_table(self._global_tables, name)

    def _open(self, name: str) -> KeyValueStore:
        stores = {store.name: store for store in self._shape.stores}
        if self._timing.declared is not None and name == self._timing.declared.store:
            raise ConfigError(f"store {name!r}: keeps the keyed timers; use task.timers")
        if name not in stores or self._stores is None:
            raise ConfigError(f"store {name!r}: subtopology {self.id.subtopology} declares {[*stores] or 'none'}")
        if name in self._horizons:
            return ExpiringKeyValueStore(name, self._stores, self._buffer, self._at_work, self.id, self._horizons[name])
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

    @property
    def timers(self) -> Timers:
        """Return the task's keyed timers. Raises ``ConfigError`` if the subtopology does not declare ``timers``."""
        return self._timing.timers

    def every(self, interval_ms: int, call: Punctuator, clock: TimersClock = "stream") -> Punctuation:
        """Have ``call(task, time_ms)`` made at intervals; ``cancel`` of the result ends it (Kafka: ``schedule``).

        Use it in ``init``, or in any function that gets the task. With ``stream`` the clock is the newest timestamp of
        the task's records: the first call comes with the first record, the next ones at multiples of ``interval_ms``
        since 1970. With ``wall`` the first call comes after an interval. Missed intervals are not made up for: one call
        comes late. The schedule is lost with the process; a task that starts again calls ``init`` again. What the call
        writes and emits is committed with the next commit, and has the time ``time_ms``. Raises ``ConfigError`` for an
        interval below 1 ms, another clock, or a ``call`` that does not take two arguments.
        """
        refuse_no_function("every: call", call, ("task", "time_ms"))
        return self._timing.every(interval_ms, call, clock)

    def current_stream_time_ms(self) -> int | None:
        """Return the newest timestamp of the task's records (Kafka: ``currentStreamTimeMs``), or None before the first.

        In milliseconds since 1970. Of the batch that is being processed, the record that was read last counts, and
        those before it.
        """
        done_ms = self._timing.stream_ms()
        if not self._at_work.record.topic:
            return self._timing.call_ms()
        batch_ms = self._at_work.newest_ms()
        return batch_ms if done_ms is None else max(done_ms, batch_ms)

    def current_system_time_ms(self) -> int:
        """Return the wall clock's time, in milliseconds since 1970 (Kafka: ``currentSystemTimeMs``).

        In a ``TopologyTestDriver`` it is the driver's.
        """
        return self._timing.wall_ms()

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
        value that is neither bytes nor None, and ``ValueError`` for a partition or time out of range and a header name
        that UTF-8 cannot encode.
        """
        record = self._at_work.record
        to = self._sinks.get(topic)
        if to is None:
            to = self._sink(topic)
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
            partition = self._place(topic).number("partition", partition, PARTITIONS)
        if timestamp_ms is None:
            timestamp_ms = record.timestamp_ms
        else:
            timestamp_ms = self._place(topic).number("timestamp_ms", timestamp_ms, MILLISECONDS)
        buffer = self._buffer
        buffer.emitted.append((to, key, value, headers, partition, timestamp_ms))
        buffer.emitted_bytes += (0 if key is None else len(key)) + (0 if value is None else len(value))

    def emit_many(
        self,
        topic: str,
        entries: Iterable[tuple[bytes | None, bytes | None]],
        timestamps_ms: Sequence[int] | None = None,
    ) -> None:
        """Send many records, keys and values, to one of the subtopology's sinks, in their order and without headers.

        ``timestamps_ms`` has one time for each (since 1970); without it they have that of the current input record.
        Raises what ``emit`` raises; then none of them is sent.
        """
        to = self._sink(topic)
        pairs = list(entries)
        keys, values = [key for key, _ in pairs], [value for _, value in pairs]
        if not BYTES_OR_NONE.issuperset(map(type, keys)):
            self._place(topic).check("key", keys, BYTES_OR_NONE)
        if not BYTES_OR_NONE.issuperset(map(type, values)):
            self._place(topic).check("value", values, BYTES_OR_NONE)
        times = self._place(topic).times(timestamps_ms, len(pairs), self._at_work.record.timestamp_ms)
        self._buffer.emit_many([*zip(repeat(to), keys, values, repeat(()), repeat(None), times, strict=False)])

    def _sink(self, topic: str) -> str:
        """Return the full name of a sink. Raises ``ConfigError`` for another topic."""
        if topic not in self._sinks:
            raise ConfigError(
                f"topic {topic!r}: subtopology {self.id.subtopology} declares the sinks {sorted(self._sinks)}"
            )
        return self._sinks[topic]

    def _place(self, topic: str) -> Place:
        return Place(self.id, f"output {topic!r}", self._at_work)


class Process(Protocol):
    """Type of the user's function: it takes a task and its next records, oldest first, at least one."""

    def __call__(self, task: Task, records: Batch, /) -> None:
        """Process the records with the task's stores and outputs. They are committed after the function returned."""
        ...


class Punctuator(Protocol):
    """Type of what ``Task.every`` calls (Kafka: ``Punctuator``)."""

    def __call__(self, task: Task, time_ms: int, /) -> None:
        """Do what is to be done at a time, in milliseconds of the clock that the call was scheduled on."""
        ...


class Init(Protocol):
    """Type of ``init`` of a subtopology (Kafka: ``Processor.init``)."""

    def __call__(self, task: Task, /) -> None:
        """Prepare a task that begins to run in this process, before its first records: schedule punctuators."""
        ...


class FireTimers(Protocol):
    """Type of ``timers`` of a subtopology: it takes a task and the timers that are due."""

    def __call__(self, task: Task, due: Sequence[Timer], /) -> None:
        """Do what the timers were set for; they are in the order of their times, at least one."""
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
    - ``in_time_order``: whether the records of several sources come in the order of their times.
    - ``sources_pattern``: regular expression for more topics to read.
    - ``on_error``: what becomes of a record for which the function raises.
    - ``init``: function that is called with each task before its first records.
    - ``timers``: function that is called with the keyed timers that are due.
    - ``timers_clock``: clock of the keyed timers, ``stream`` or ``wall``.
    - ``timers_store``: name of the store that keeps the keyed timers.

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
    in_time_order: bool = True
    """Whether a task that reads several topics gets the oldest record of all first, as a join needs it. Then a call has
    few records where topics alternate; ``False`` brings each topic's as they arrive."""
    sources_pattern: str | None = None
    """Regular expression: topics whose whole name matches are read too, also those that appear later."""
    on_error: OnError = "fail"
    """What becomes of a record for which the function raises: ``fail`` ends the worker, ``skip`` goes on behind it,
    ``dead_letter`` also sends it to ``errors_dead_letter_queue_topic_name``. A function ``(record, error)`` answers one
    of these."""
    init: Init | None = None
    """Function that is called with each task when it begins to run in this process, also when it starts again after a
    failed commit. It may call ``task.every``. If it raises, the worker ends."""
    timers: FireTimers | None = None
    """Function that gets a task and the keyed timers that are due. The functions set them with ``task.timers.set``."""
    timers_clock: TimersClock = "stream"
    """Clock of the keyed timers: ``stream`` is the newest timestamp of the task's records, ``wall`` the machine's."""
    timers_store: str = "timers"
    """Name of the store that keeps the timers; the changelog is ``<application_id>-<timers_store>-changelog``."""

    def __post_init__(self) -> None:
        refuse_no_function("process", self.process, ("task", "records"))
        if self.init is not None:
            refuse_no_function("init", self.init, ("task",))
        if self.timers is not None:
            refuse_no_function("timers", self.timers, ("task", "due"))
        KeyedTimers.of("timers_clock", self.timers_clock, "timers_store", self.timers_store)
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
        check_in_time_order("in_time_order", self.in_time_order)
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
            None if self.timers is None else KeyedTimers(self.timers_clock, self.timers_store),
            in_time_order=self.in_time_order,
        )
