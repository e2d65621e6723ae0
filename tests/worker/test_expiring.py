"""Entries that expire while a topology runs: what functions read, what commits delete, in a driver without a broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign import Config, Record, StateError, Store, Subtopology, Task, TaskId, TopologyTestDriver
from kstreams_assign.model import SubtopologyShape, TopicPartition
from kstreams_assign.tasks.buffer import Taken
from kstreams_assign.tasks.commit import CommitEnd
from kstreams_assign.tasks.expiry import ExpiringStores, store_names, with_expiry
from kstreams_assign.tasks.input_offsets import InputOffsets
from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.tasks.record_cache import RecordCache
from kstreams_assign.tasks.stamped import stamped
from kstreams_assign.tasks.times import PartitionTime
from kstreams_assign.worker import expiring
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.expiring import Expiries, TaskExpiry
from kstreams_assign.worker.labour import Functions
from kstreams_assign.worker.running import Running
from kstreams_assign.worker.task_workspace import TaskWorkspace
from tests.samples import examples

TTL_MS = 320
LATE_MS = TTL_MS // 32
STORE = "sessions"
CHANGELOG = "test-sessions-changelog"
TASK = TaskId(0, 0)
AT_LEAST_ONCE, EXACTLY_ONCE = "at_least_once", "exactly_once_v2"


def test_entries_expire_behind_the_record_cache_too() -> None:
    shape = SubtopologyShape(("in",), (Store(STORE, timestamped=True, ttl_ms=TTL_MS),))
    behind = with_expiry(MemoryStores(dict.fromkeys(store_names(shape.stores))), shape)
    stores = RecordCache(1 << 20).over(behind, shape.on_disk)
    assert stores is not behind
    stores.write({STORE: [(b"ann", stamped(b"", 1))]}, {})
    expiry = expiring.task_expiry(shape, stores, {}, lambda: 0)
    assert expiry is not None
    assert expiry._stores.is_due(STORE, 10 * TTL_MS)


class Twin:
    """The slow twin of the store: a dict of times, scanned at each read; ``now_ms`` is stream time or the wall clock.

    The function of the topology reads and writes both, and compares.
    """

    def __init__(self, wall: Callable[[], int] | None) -> None:
        self.wall, self.stream_ms = wall, -1
        self.entries: dict[bytes, tuple[bytes, int]] = {}

    @property
    def now_ms(self) -> int:
        return self.stream_ms if self.wall is None else self.wall()

    def live(self) -> dict[bytes, bytes]:
        return {key: value for key, (value, time) in self.entries.items() if time + TTL_MS > self.now_ms}

    def process(self, task: Task, records: Sequence[Record]) -> None:
        store = task.timestamped_store(STORE)
        for record in records:
            self.stream_ms = max(self.stream_ms, record.timestamp_ms)
            live = self.live()
            assert dict(store.range()) == live
            assert dict(store.prefix_scan(b"")) == live
            assert list(store.range(reverse=True)) == sorted(live.items(), reverse=True)
            assert store.get_many([b"a", b"b", b"c"]) == [live.get(key) for key in (b"a", b"b", b"c")]
            assert record.key is not None
            assert store.get(record.key) == live.get(record.key)
            with_time = store.get_with_timestamp(record.key)
            assert with_time is None or with_time.timestamp_ms == self.entries[record.key][1]
            if record.value is None:
                self.entries.pop(record.key, None)
            else:
                self.entries[record.key] = record.value, record.timestamp_ms
            store.put(record.key, record.value)


def driver(
    process: Callable[[Task, Sequence[Record]], None], clock: str = "stream", **options: object
) -> TopologyTestDriver:
    on_error = options.pop("on_error", "fail")
    stores = [Store(STORE, ttl_ms=TTL_MS, ttl_clock=clock)]  # type: ignore[arg-type]
    sub = Subtopology(process, sources=["in"], stores=stores, on_error=on_error)  # type: ignore[arg-type]
    return TopologyTestDriver([sub], now_ms=0, **options)  # type: ignore[arg-type]


def on_disk(made: TopologyTestDriver) -> dict[bytes, bytes]:
    """What the database has, expired or not."""
    return {key: value[8:] for key, value in made._stores[TASK].range(STORE)}


class Changelog:
    """The compacted view of a changelog: what a standby and a restored store hold."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}
        self.records: list[Record] = []

    def read(self, made: TopologyTestDriver) -> dict[bytes, bytes]:
        for record in made.read(CHANGELOG):
            self.records.append(record)
            assert record.key is not None
            if record.value is None:
                self.entries.pop(record.key, None)
            else:
                self.entries[record.key] = record.value
        return self.entries


KEYS = st.sampled_from([b"a", b"b", b"c"])
TIMES = st.integers(0, 2000)
RECORDS = st.lists(st.tuples(KEYS, st.none() | st.sampled_from([b"1", b"2"]), TIMES), min_size=1, max_size=5)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pipe"), RECORDS),
        st.tuples(st.just("advance"), st.integers(0, 500)),
        st.tuples(st.just("commit"), st.none()),
    ),
    max_size=12,
)


@settings(max_examples=examples(100))
@given(
    clock=st.sampled_from(["stream", "wall"]),
    guarantee=st.sampled_from([AT_LEAST_ONCE, EXACTLY_ONCE]),
    auto_commit=st.booleans(),
    steps=STEPS,
)
def test_functions_read_what_a_scan_of_times_finds_and_the_store_is_the_changelog(
    clock: str, guarantee: str, auto_commit: bool, steps: list[tuple]
) -> None:
    twin = Twin((lambda: made.now_ms) if clock == "wall" else None)
    made = driver(twin.process, clock, processing_guarantee=guarantee, auto_commit=auto_commit)
    changelog = Changelog()
    for step, what in steps:
        if step == "pipe":
            made.pipe_many("in", [(key, value) for key, value, _ in what], [time for _, _, time in what])
        elif step == "advance":
            made.advance(what)
        else:
            made.commit()
        assert on_disk(made) == changelog.read(made)
    made.commit()
    made.commit()  # what the first one wrote, expired by then
    kept = {key for key, (_, time) in twin.entries.items() if time + TTL_MS + LATE_MS > twin.now_ms}
    live = twin.live()
    assert dict(made.store(STORE).range()) == live
    assert live.keys() <= on_disk(made).keys() <= kept
    assert on_disk(made) == changelog.read(made)


def keep(task: Task, records: Sequence[Record]) -> None:
    for record in records:
        task.store(STORE).put(record.key, record.value)  # type: ignore[arg-type]


def tombstones(made: TopologyTestDriver) -> list[tuple[bytes | None, int]]:
    return [(record.key, record.timestamp_ms) for record in made.read(CHANGELOG) if record.value is None]


@pytest.mark.parametrize("guarantee", [AT_LEAST_ONCE, EXACTLY_ONCE])
def test_by_the_wall_clock_entries_expire_without_input(guarantee: str) -> None:
    with driver(keep, "wall", processing_guarantee=guarantee) as made:
        made.pipe("in", b"k", b"v")
        made.advance(TTL_MS - 1)
        assert made.store(STORE).get(b"k") == b"v"
        made.advance(1)
        assert made.store(STORE).get(b"k") is None
        assert on_disk(made) == {b"k": b"v"}, "its tombstone may follow a little later"
        made.advance(LATE_MS)
        assert (on_disk(made), tombstones(made)) == ({}, [(b"k", TTL_MS + LATE_MS)])


def test_stream_time_does_not_pass_without_records() -> None:
    with driver(keep) as made:
        made.pipe("in", b"k", b"v", 100)
        made.advance(10 * TTL_MS)
        assert made.store(STORE).get(b"k") == b"v"


def test_a_write_that_has_expired_when_it_is_committed_is_a_tombstone_at_once() -> None:
    with driver(keep) as made:
        made.pipe_many("in", [(b"late", b"v"), (b"new", b"v"), (b"later", b"v")], [100, 1000, 200])
        assert [(record.key, record.value) for record in made.read(CHANGELOG)] == [
            (b"late", None),
            (b"new", b"v"),
            (b"later", None),
        ]
        assert on_disk(made) == {b"new": b"v"}


def test_a_write_in_the_commit_that_would_delete_the_entry_keeps_it() -> None:
    with driver(keep) as made:
        made.pipe("in", b"k", b"old", 0)
        made.pipe("in", b"k", b"new", 5000)
        assert (on_disk(made), tombstones(made)) == ({b"k": b"new"}, [])


def test_many_entries_that_are_due_at_once_are_deleted_by_many_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiring, "EXPIRED_RECORDS_MAX", 40)
    with driver(keep, "wall", processing_guarantee=EXACTLY_ONCE) as made:
        made.pipe_many("in", [(b"%d" % n, b"v") for n in range(100)])
        before = made._loop.commits.done_total
        made.advance(10 * TTL_MS)
        assert (len(tombstones(made)), on_disk(made)) == (100, {})
        assert made._loop.commits.done_total == before + 3


def test_a_commit_that_could_not_delete_all_is_followed_by_the_next_without_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(expiring, "EXPIRED_RECORDS_MAX", 40)
    with driver(keep, "wall", auto_commit=False) as made:
        made.pipe_many("in", [(b"%d" % n, b"v") for n in range(100)])
        made.commit()
        made.advance(10 * TTL_MS)
        assert tombstones(made) == [], "the driver commits only when it is asked to"
        made.commit()  # and one turn of the loop more
        assert len(tombstones(made)) == 80
        made.advance(0)
        assert len(tombstones(made)) == 20


def test_a_commit_that_fails_deletes_nothing_and_the_next_one_does() -> None:
    with driver(keep, "wall", processing_guarantee=EXACTLY_ONCE) as made:
        made.pipe("in", b"k", b"v")
        made.fail_next_commit()
        made.advance(10 * TTL_MS)
        assert made._loop.commits.failed_total == 1
        made.advance(1)
        assert (on_disk(made), len(tombstones(made))) == ({}, 1)


def test_the_time_of_a_batch_that_was_undone_does_not_hide_entries_from_the_records_before() -> None:
    seen: list[tuple[bytes | None, bytes | None]] = []

    def process(task: Task, records: Sequence[Record]) -> None:
        for record in records:
            if record.value == b"poison":
                raise ValueError
            seen.append((record.key, task.store(STORE).get(b"old")))
            task.store(STORE).put(record.key, record.value)  # type: ignore[arg-type]

    with driver(process, on_error="skip") as made:
        made.pipe("in", b"old", b"v", 100)
        made.pipe_many("in", [(b"1", b"v"), (b"2", b"poison"), (b"3", b"v")], [110, 5000, 120])
        assert seen[1:] == [(b"1", b"v"), (b"1", b"v"), (b"3", None)]


def test_a_look_up_at_the_owner_does_not_find_what_has_expired() -> None:
    def look_up(key: bytes) -> bytes | None:
        answer: Future = Future()
        made._loop.peek(TASK, STORE, key, answer)
        made._loop.turn(wait=False)
        value: bytes | None = answer.result(0).value
        return value

    with driver(keep, auto_commit=False) as made:
        made.pipe("in", b"k", b"v", 100)
        made.commit()
        assert look_up(b"k") == stamped(b"v", 100)
        made.pipe("in", b"other", b"v", 100 + TTL_MS)
        assert (look_up(b"k"), on_disk(made)) == (None, {b"k": b"v"})


# --- parts -------------------------------------------------------------------------------

SHAPE = SubtopologyShape(("in",), (Store(STORE, ttl_ms=TTL_MS, ttl_clock="wall"),))
INPUT = TopicPartition("in", 0)


def expiry(entries: int, now_ms: int = 10_000) -> TaskExpiry:
    stores = with_expiry(MemoryStores(store_names(SHAPE.stores)), SHAPE)
    assert isinstance(stores, ExpiringStores)
    stores.write({STORE: [(b"%d" % n, stamped(b"", 0)) for n in range(entries)]}, {})
    return TaskExpiry(SHAPE, stores, {INPUT: PartitionTime()}, lambda: now_ms)


def expired(of: TaskExpiry) -> int:
    return sum(map(len, of.add_to(Taken({}, {}, ()))[0].writes.values()))


def test_the_tasks_of_a_process_share_the_limit_and_a_failed_commit_halves_it() -> None:
    expiries = Expiries(lambda _task, _error: None)
    tasks = [(TaskId(0, n), expiry(15_000), {INPUT: 0}) for n in range(2)]
    expiries.find(tasks)
    assert [expired(each) for _, each, _ in tasks] == [10_000, 10_000]
    assert expiries.more
    expiries.commit_ends(CommitEnd.FAILED)
    expiries.find(tasks)
    assert all(0 < expired(each) <= 5_000 for _, each, _ in tasks)


def test_a_task_whose_store_cannot_be_read_is_reported_and_does_not_hold_up_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported: list[tuple[TaskId, str]] = []
    expiries = Expiries(lambda task, error: reported.append((task, str(error))))
    broken, whole = expiry(3), expiry(3)

    def fail(*_args: object, **_options: object) -> None:
        raise StateError("a bad block")

    monkeypatch.setattr(broken._stores, "due", fail)
    expiries.find([(TaskId(0, 0), broken, {}), (TaskId(0, 1), whole, {})])
    assert reported == [(TaskId(0, 0), "a bad block")]
    assert (expired(broken), expired(whole)) == (0, 3)


def test_what_is_deleted_is_decided_by_the_time_of_the_input_that_is_committed() -> None:
    """A session that has polled records and not committed them may end, and they are read again."""
    shape = SubtopologyShape(("in",), (Store(STORE, ttl_ms=TTL_MS),))
    stores = with_expiry(MemoryStores(store_names(shape.stores)), shape)
    assert isinstance(stores, ExpiringStores)
    stores.write({STORE: [(b"k", stamped(b"", 0))]}, {})
    times = {INPUT: PartitionTime()}
    made = TaskExpiry(shape, stores, times, lambda: 0)
    times[INPUT].saw(7, 5000)
    made.stream.saw(5000)
    assert made.hides(STORE, stamped(b"", 0))
    made.look_at_clocks({INPUT: 6})
    assert made.find(9, 99).records == 0
    made.look_at_clocks({INPUT: 7})
    assert made.find(9, 99).records == 1


def running_with(of: TaskExpiry) -> Running:
    times = of._times
    workspace = TaskWorkspace(TASK, SHAPE, {}, of._stores, AtWork(10_000), times, expiry=of)
    return Running(workspace, InputOffsets({INPUT: 7}), times)


def test_a_batch_that_was_undone_hides_no_entry_from_a_call_before_its_pieces() -> None:
    of = expiry(0)
    running = running_with(of)

    def fail(_task: Task, records: Sequence[Record]) -> None:
        raise ValueError([record.value for record in records])

    functions = Functions([fail], Config(application_id="app", bootstrap_servers="localhost:1"), ["skip"])
    records = [Record("in", 0, 7 + number, time_ms, b"k", b"v") for number, time_ms in enumerate((150, 90_000))]
    assert functions.work(running, INPUT, records) == 0
    assert (of.stream.done_ms, of.stream.now_ms) == (-1, -1)


def test_a_commit_that_only_deletes_has_the_last_offsets_so_that_the_group_checks_the_member() -> None:
    of = expiry(1)
    running = running_with(of)
    Expiries(lambda _task, _error: None).find([(TASK, of, running.offsets.done_to())])
    assert running.news
    work = running.take()
    assert (work.taken.writes, work.taken.times) == ({STORE: {b"0": None}}, {STORE: {b"0": 10_000}})
    assert work.offsets == {INPUT: 7}
    assert (work.expired, running.take().expired) == (1, 0)
    assert not running.news


def test_a_commit_that_deletes_leaves_what_a_session_has_not_sealed() -> None:
    of = expiry(2)
    running = running_with(of)
    running.task.store(STORE).put(b"0", b"again")
    Expiries(lambda _task, _error: None).find([(TASK, of, running.offsets.done_to())])
    assert running.take().taken.writes == {STORE: {b"0": None, b"1": None}}
    assert (running.task.store(STORE).get(b"0"), running.task.store(STORE).get(b"1")) == (b"again", None)
    running.seal({})
    assert running.take().taken.writes == {STORE: {b"0": stamped(b"again", 10_000)}}
