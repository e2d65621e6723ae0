"""``TopologyTestDriver``: a topology in a test, without a broker.

What must not live here: how records are processed or committed (``worker.processing``), what a broker keeps
(``broker``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import fields
from inspect import signature
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.client_settings import unknown_key
from kstreams_assign.config import Config
from kstreams_assign.errors import ConfigError, WorkerNotRunning
from kstreams_assign.events import EventListener
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import TaskId
from kstreams_assign.serdes.named import serde_of
from kstreams_assign.serdes.serde import Serde
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.tasks.buffer import WriteBuffer
from kstreams_assign.tasks.expiry import store_names, with_expiry
from kstreams_assign.tasks.lifecycle import TaskState
from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.tasks.timers import Timer, pending
from kstreams_assign.testing.around import (
    DirectCalls,
    DirectRestore,
    DrivenFunctions,
    DriverClock,
    NoDeletions,
    NoFolders,
    OnlyMember,
)
from kstreams_assign.testing.broker import MemoryBroker
from kstreams_assign.testing.clients import MemoryInputs, MemoryProducer, MemoryTransactions
from kstreams_assign.testing.given import check_key_or_value, checked_headers, whole_number
from kstreams_assign.testing.tables import MemoryTables
from kstreams_assign.testing.topics import Topics
from kstreams_assign.testing.typed import InputTopic, OutputTopic
from kstreams_assign.topology.flows import bind_flows, refuse_endless_letters, topology_shape
from kstreams_assign.topology.global_tables import GlobalTable, checked_global_tables
from kstreams_assign.topology.internal import refuse_wrong_topology
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.expiring_view import ExpiringKeyValueStore
from kstreams_assign.worker.global_views import (
    ReadOnlyKeyValueStore,
    ReadOnlyTimestampedKeyValueStore,
    global_table,
    timestamped_global_table,
)
from kstreams_assign.worker.labour import Facts
from kstreams_assign.worker.pauses import target_of
from kstreams_assign.worker.processing import Processor
from kstreams_assign.worker.purging import Purging
from kstreams_assign.worker.stream_worker import refuse_other_topologies, timed_functions
from kstreams_assign.worker.task import Subtopology
from kstreams_assign.worker.timing import TimerEntries
from kstreams_assign.worker.typed import TypedKeyValueStore, TypedTimestampedKeyValueStore, typed_view
from kstreams_assign.worker.views import KeyValueStore, TimestampedKeyValueStore

K = TypeVar("K")
V = TypeVar("V")
_FIXED: Mapping[str, Any] = {
    "commit_interval_ms": 1 << 60,  # the driver commits
}
_NEEDED: Mapping[str, Any] = {"application_id": "test", "bootstrap_servers": "localhost:9092"}


class TopologyTestDriver:
    """Run a topology in a test, without a broker (Java: ``TopologyTestDriver``).

    Your functions get the tasks, batches and stores that a ``Worker`` gives them, on the thread of the test::

        topology = [Subtopology(count, sources=["words"], stores=["counts"], sinks=["word-counts"])]
        with TopologyTestDriver(topology) as driver:
            driver.pipe("words", b"to", b"")
            assert [(record.key, record.value) for record in driver.read("word-counts")] == [(b"to", b"1")]
            assert driver.store("counts").get(b"to") == b"1"

    - ``topology``: the list of ``Subtopology`` that ``Worker`` gets.
    - ``global_tables``: the list of ``GlobalTable`` that ``Worker`` gets; what is written to their topics is in them at
      once.
    - ``partitions``: topic -> its number of partitions, 1 for a topic that is left out. Repartition topics have as many
      as their declaration or their sources say.
    - ``auto_commit``: whether ``pipe`` commits. With False only ``commit`` does, or a full buffer
      (``buffered_records_max``).
    - ``now_ms``: start of the wall clock, in milliseconds since 1970; by default the machine's time.
    - ``on_event``: gets the events of ``kstreams_assign.events``.
    - ``settings``: those of ``Config``, such as ``processing_guarantee`` and ``max_poll_records``. Without
      ``application_id`` it is ``test``. Settings of brokers, the group and the state directory have no effect.

    One process has all tasks. Their stores are in memory and begin empty. Raises ``ConfigError`` for a wrong argument,
    and ``TopologyMismatch`` for numbers of partitions that contradict each other.
    """

    def __init__(
        self,
        topology: Sequence[Subtopology],
        *,
        global_tables: Sequence[GlobalTable] = (),
        partitions: Mapping[str, int] | None = None,
        auto_commit: bool = True,
        now_ms: int | None = None,
        on_event: EventListener | None = None,
        **settings: Any,
    ) -> None:
        refuse_other_topologies(topology, "TopologyTestDriver([Subtopology(...)])")
        config = _config(settings)
        flows = bind_flows([sub.flow for sub in topology], config.application_id)
        self._shape = topology_shape(flows)
        refuse_wrong_topology(self._shape, config.application_id)
        refuse_endless_letters(flows, config.errors_dead_letter_queue_topic_name)
        self._clock = DriverClock(wall_ms() if now_ms is None else whole_number("now_ms", now_ms))
        self._broker = MemoryBroker()
        tables = checked_global_tables(global_tables, self._shape)
        global_topics = [table.topic for table in tables]
        self._topics = Topics(self._shape, flows, config, partitions or {}, self._broker, global_topics)
        self._tables = MemoryTables(tables, self._broker)
        self._stores: dict[TaskId, TaskStores] = {}
        self._at_work = AtWork(self._clock.now_ms)
        self._views: dict[tuple[TaskId, str], KeyValueStore] = {}
        self._prepared: list[tuple[TaskId, WriteBuffer]] = []
        self._last_horizons: dict[tuple[TaskId, str], bytes] = {}
        self._auto_commit = auto_commit
        clocks = self._clock.clocks()
        self._functions = DrivenFunctions(
            [sub.process for sub in topology],
            config,
            [sub.on_error for sub in topology],
            clocks.monotonic_ms,
            [timed_functions(sub) for sub in topology],
            commits=auto_commit,
        )
        self._inputs = MemoryInputs(self._broker)
        produces = MemoryTransactions if config.exactly_once else MemoryProducer
        self._producer = produces(self._broker, clocks.wall_ms)
        log = EventLog("test-driver", on_event, clocks.wall_ms)
        self._loop = Processor(
            config,
            flows,
            self._shape,
            self._functions,
            self._inputs,
            self._producer,
            NoFolders(),
            OffsetSums(),
            Purging((), config.repartition_purge_interval_ms, NoDeletions(), clocks.monotonic_ms, log),
            log,
            clocks,
        )
        self._loop.global_tables = self._tables.views
        restore = DirectRestore(self._broker, self._stores)
        restore.loop = self._loop
        lease_s = config.session_timeout_ms / 1000
        self._loop.connect(OnlyMember(self._broker, lease_s), restore, lambda _positions: None, DirectCalls())
        self._functions.connect(self._loop, lambda: Facts(self._generation, {}))
        self._generation: int = 0
        self._turning = False
        self._ended: str | None = None
        self._assign()
        self._work()

    # --- records -------------------------------------------------------------------------

    def pipe(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int | None = None,
        *,
        headers: Iterable[tuple[str, bytes | None]] = (),
        partition: int | None = None,
    ) -> None:
        """Write a record to a source topic or the topic of a global table, and process until nothing is left to do.

        Without ``partition`` the key decides, as in Java (murmur2); records without a key take the partitions in turn.
        ``timestamp_ms`` (since 1970) is the wall clock's if it is left out. Raises ``ConfigError`` for a topic that no
        subtopology reads, ``TypeError`` for a key or value that is neither bytes nor None, ``WorkerNotRunning`` after
        the end, and what the functions raise; their error ends the driver, as it ends a worker.
        """
        self._refuse_after_end()
        source = self._source(topic)
        self._write(source, [(key, value, timestamp_ms)], checked_headers(topic, headers), partition)

    def pipe_many(
        self,
        topic: str,
        entries: Iterable[tuple[bytes | None, bytes | None]],
        timestamps_ms: Sequence[int] | None = None,
    ) -> None:
        """Write keys and values to a source topic, then process: a function gets many records at once.

        ``timestamps_ms`` has one time for each. Batches have the sizes that a worker gives them: the first at most 16
        records. Raises as ``pipe`` does; where an entry is refused, none is written.
        """
        self._refuse_after_end()
        pairs = list(entries)
        times: Sequence[int | None] = [None] * len(pairs) if timestamps_ms is None else timestamps_ms
        if len(times) != len(pairs):
            raise ConfigError(f"timestamps_ms: has {len(times)} times for {len(pairs)} records: must have one for each")
        timed = [(key, value, time_ms) for (key, value), time_ms in zip(pairs, times, strict=True)]
        self._write(self._source(topic), timed)

    def read(self, topic: str) -> list[Record]:
        """Return what the topology has written to a topic and was not read yet, oldest first.

        As a reader of committed records sees it: nothing of a transaction that is not committed. Changelogs and
        repartition topics can be read, too. Raises ``ConfigError`` for a topic that the topology does not write to.
        """
        return self._broker.read_written(self._topics.written(topic))

    def input_topic(self, topic: str, *, key: type[K] | Serde[K], value: type[V] | Serde[V]) -> InputTopic[K, V]:
        """Return a source topic that takes Python values; ``key`` and ``value`` are as in ``Task.store``.

        Raises ``ConfigError`` for a topic that no subtopology reads, and for other types.
        """
        serdes = serde_of("key", key), serde_of("value", value)
        return InputTopic(self.pipe, topic, *serdes, self._topics.source(topic), self._at_work)

    def output_topic(self, topic: str, *, key: type[K] | Serde[K], value: type[V] | Serde[V]) -> OutputTopic[K, V]:
        """Return a topic whose records are read as Python values; ``key`` and ``value`` are as in ``Task.store``.

        Raises ``ConfigError`` for a topic that the topology does not write to, and for other types.
        """
        serdes = serde_of("key", key), serde_of("value", value)
        return OutputTopic(self._broker, topic, *serdes, self._topics.written(topic))

    def written_topics(self) -> list[str]:
        """Return the topics that the topology has written to so far (Java: ``producedTopicNames``)."""
        return self._broker.written_topics()

    # --- stores --------------------------------------------------------------------------

    @overload
    def store(self, name: str, partition: int = 0) -> KeyValueStore: ...
    @overload
    def store(
        self, name: str, partition: int = 0, *, key: type[K] | Serde[K], value: type[V] | Serde[V]
    ) -> TypedKeyValueStore[K, V]: ...
    def store(
        self,
        name: str,
        partition: int = 0,
        *,
        key: type[K] | Serde[K] | None = None,
        value: type[V] | Serde[V] | None = None,
    ) -> KeyValueStore | TypedKeyValueStore[K, V]:
        """Return the committed state of a store, to read it and to put entries into it.

        What you put is there for the next record, without a record in the changelog. ``key`` and ``value`` are as in
        ``Task.store``. Raises ``ConfigError`` for a store that the topology does not declare, and for a partition that
        it does not have.
        """
        if key is not None or value is not None:
            return self._typed(name, partition, key, value)
        task = self._topics.task_of(name, partition)
        view = self._views.get((task, name))
        if view is None:
            view = self._views[task, name] = self._open(task, name)
        return view

    @overload
    def timestamped_store(self, name: str, partition: int = 0) -> TimestampedKeyValueStore: ...
    @overload
    def timestamped_store(
        self, name: str, partition: int = 0, *, key: type[K] | Serde[K], value: type[V] | Serde[V]
    ) -> TypedTimestampedKeyValueStore[K, V]: ...
    def timestamped_store(
        self,
        name: str,
        partition: int = 0,
        *,
        key: type[K] | Serde[K] | None = None,
        value: type[V] | Serde[V] | None = None,
    ) -> TimestampedKeyValueStore | TypedTimestampedKeyValueStore[K, V]:
        """Return what ``store`` returns, for a store with ``timestamped``. Raises ``ConfigError`` for another."""
        view = self.store(name, partition)
        if not isinstance(view, TimestampedKeyValueStore):
            raise ConfigError(f"store {name!r}: keeps no timestamps; declare it as Store({name!r}, timestamped=True)")
        if key is None and value is None:
            return view
        typed = self._typed(name, partition, key, value)
        assert isinstance(typed, TypedTimestampedKeyValueStore), "as its view is"
        return typed

    def _typed(
        self, name: str, partition: int, key: type[K] | Serde[K] | None, value: type[V] | Serde[V] | None
    ) -> TypedKeyValueStore[K, V]:
        serdes = serde_of("key", key), serde_of("value", value)
        where = f"store {name!r} of partition {partition}"
        return typed_view(self.store(name, partition), *serdes, self._topics.changelog(name), where, self._at_work)

    def global_table(self, name: str) -> ReadOnlyKeyValueStore:
        """Return a global table. Raises ``ConfigError`` for a name that is not declared."""
        return global_table(self._tables.views, name)

    def timestamped_global_table(self, name: str) -> ReadOnlyTimestampedKeyValueStore:
        """Return a global table that was declared with ``timestamped``. Raises ``ConfigError`` for another."""
        return timestamped_global_table(self._tables.views, name)

    def _open(self, task: TaskId, name: str) -> KeyValueStore:
        stores, buffer = self._stores[task], WriteBuffer()
        self._prepared.append((task, buffer))
        sub = self._shape.subtopologies[task.subtopology]
        if any(store.name == name and store.ttl_ms is not None for store in sub.stores):
            return ExpiringKeyValueStore(name, stores, buffer, self._at_work, task, lambda: self._horizon(task, name))
        timestamped = name in sub.timestamped
        view = TimestampedKeyValueStore if timestamped else KeyValueStore
        return view(name, stores, buffer, self._at_work, task)

    def _horizon(self, task: TaskId, store: str) -> bytes:
        """Return the bytes below which a stored value has expired; after the end the loop knows of none."""
        return self._last_horizons.get((task, store)) or self._loop.horizon(task, store)

    def timers(self, store: str = "timers", partition: int = 0) -> list[Timer]:
        """Return the committed keyed timers that are set, in the order of their times.

        ``store`` is the ``timers_store`` of the subtopology. Raises ``ConfigError`` as ``store`` does.
        """
        task = self._topics.task_of(store, partition)
        entries = TimerEntries(store, self._stores[task], WriteBuffer(), self._at_work, task)
        return list(pending(entries))

    # --- time and commits ----------------------------------------------------------------

    def advance(self, ms: int) -> None:
        """Move the wall clock and the loop's clock on, and make the calls that are due by then.

        A punctuator is called once, however many intervals pass. Stream time moves with the timestamps of records.
        Raises ``ConfigError`` for a time that goes back, and as ``pipe`` does.
        """
        self._refuse_after_end()
        self._clock.advance(whole_number("ms", ms))
        self._at_work.record = AtWork(self._clock.now_ms).record
        self._work()

    @property
    def now_ms(self) -> int:
        """Return the time of the wall clock, in milliseconds since 1970."""
        return self._clock.now_ms

    def commit(self) -> None:
        """Commit what is processed, then process what that made readable. Raises as ``pipe`` does."""
        self._refuse_after_end()
        self._functions.commits = True
        try:
            self._turn()
        finally:
            self._functions.commits = self._auto_commit
        self._work()

    def fail_next_commit(self) -> None:
        """Make the next commit that has something to commit fail.

        The stores stay as they were, and the functions get the commit's input records again. At least once, outputs
        that left before the commit stay readable, so they come twice. Exactly once, no record of the failed commit
        becomes readable.
        """
        self._producer.fails_next = True

    # --- pauses --------------------------------------------------------------------------

    def pause(self, which: TaskId | str | int | None = None) -> tuple[TaskId, ...]:
        """Pause a task (``0_1``), a subtopology by its number, or all tasks, and commit; return the paused tasks.

        Records that are piped to them wait until ``resume``. Called by a function of the topology, it takes effect
        behind the batch at work, and returns nothing. Raises as ``Worker.pause`` does.
        """
        return self._change_pauses(which, paused=True)

    def resume(self, which: TaskId | str | int | None = None) -> tuple[TaskId, ...]:
        """End the pause of a task, a subtopology or all tasks, and process what waits; return them."""
        return self._change_pauses(which, paused=False)

    def paused(self) -> Mapping[TaskId, int]:
        """Return the paused tasks: task -> since when, by the wall clock in milliseconds since 1970."""
        return self._loop.paused

    def _change_pauses(self, which: TaskId | str | int | None, *, paused: bool) -> tuple[TaskId, ...]:
        self._refuse_after_end()
        answer: Future[tuple[TaskId, ...]] = Future()
        self._loop.pause(target_of(which), answer, paused=paused)
        if self._turning and not answer.done():
            return ()
        while not answer.done():
            self._work()
        self._work()
        return answer.result()

    # --- the end -------------------------------------------------------------------------

    def close(self) -> None:
        """Commit what is processed, as a worker does when it is closed, and end. After an error nothing is committed.

        Outputs, stores and global tables can still be read.
        """
        if self._ended is None:
            self._ended = "the driver is closed"
            self._apply_prepared()
            self._last_horizons = {
                (task, store.name): self._loop.horizon(task, store.name)
                for task in self._stores
                for store in self._shape.subtopologies[task.subtopology].stores
                if store.ttl_ms is not None
            }
            self._loop.stop()
            self._loop.turn(wait=False)
            self._loop.settle()
            self._tables.catch_up()

    def __enter__(self) -> Self:
        """Return the driver; ``close`` is called at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- the loop ------------------------------------------------------------------------

    def _assign(self) -> None:
        """Give all tasks to the loop, as the assignment of a new generation does."""
        tasks = self._topics.tasks()
        for task in tasks:
            sub = self._shape.subtopologies[task.subtopology]
            if sub.stores and task not in self._stores:
                self._stores[task] = with_expiry(
                    MemoryStores(store_names(sub.stores), self._shape.source_changelogs), sub
                )
        self._generation += 1
        self._loop.adopt(self._generation, Adopted(tasks, frozenset(), frozenset()))
        self._turn()

    def _work(self) -> None:
        """Turn the loop until nothing is left to do; the pause of a task that failed passes at once."""
        while True:
            self._turn()
            if (
                self._inputs.any_waits
                or self._loop.has_orders
                or self._functions.wait_ms() == 0
                or (self._auto_commit and self._loop.commits.more_expired)
            ):
                continue
            if all(state is TaskState.RUNNING for state in self._loop.states().values()):
                return
            pause_ends_ms = self._loop.due_ms()
            assert pause_ends_ms is not None, "a task neither runs nor pauses"
            self._clock.skip_to(pause_ends_ms)

    def _turn(self) -> None:
        self._apply_prepared()
        self._turning = True
        try:
            self._loop.turn(wait=False)
        except BaseException:
            self._ended = "an error has ended the driver, as it ends a worker"
            raise
        finally:
            self._turning = False
        self._tables.catch_up()

    def _apply_prepared(self) -> None:
        """Write what the test put into stores."""
        for task, buffer in self._prepared:
            stores = self._loop.stores.get(task, self._stores[task])
            stores.write({name: entries.items() for name, entries in buffer.take().writes.items()}, {})
            buffer.landed()

    def _source(self, topic: str) -> str:
        """Return the full name of a topic to pipe to; one that matches a pattern may appear only now."""
        source = self._topics.source(topic)
        if source not in self._broker.partition_counts():
            self._topics.create_matched(source)
            self._assign()
            self._work()
        return source

    def _write(
        self,
        topic: str,
        entries: Sequence[tuple[bytes | None, bytes | None, int | None]],
        headers: tuple[tuple[str, bytes | None], ...] = (),
        partition: int | None = None,
    ) -> None:
        """Check all keys, values and times, write them, and process."""
        for key, value, time_ms in entries:
            check_key_or_value(topic, "key", key)
            check_key_or_value(topic, "value", value)
            if time_ms is not None:
                whole_number("timestamp_ms", time_ms)
        if partition is not None:
            self._topics.refuse_missing(topic, partition)
        now_ms = self._clock.now_ms
        for key, value, time_ms in entries:
            number = self._broker.place(topic, key, partition)
            row = (topic, key, value, headers, number, now_ms if time_ms is None else time_ms)
            self._broker.append(row, by_topology=False)
        self._tables.catch_up()
        self._work()

    def _refuse_after_end(self) -> None:
        if self._ended is not None:
            raise WorkerNotRunning(f"{self._ended}; make another TopologyTestDriver")


def _config(settings: Mapping[str, Any]) -> Config:
    """Return the settings of the application; commits come when the driver asks for them."""
    if "commit_interval_ms" in settings:
        raise ConfigError(
            f"commit_interval_ms = {settings['commit_interval_ms']!r}: must be left out; the driver commits after each "
            "pipe, or with auto_commit=False when commit() is called"
        )
    arguments = {*signature(TopologyTestDriver).parameters} - {"settings"}
    known = {each.name for each in fields(Config)}
    if unknown := [key for key in settings if key not in known]:
        raise ConfigError(unknown_key(unknown[0], known | arguments))
    return Config(**{**_NEEDED, **settings, **_FIXED})
