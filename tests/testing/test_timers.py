"""Punctuators and keyed timers in a test driver: when they are called, what is committed, and what errors do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

from kstreams_assign import (
    Batch,
    ConfigError,
    Event,
    Punctuation,
    Record,
    Store,
    Subtopology,
    Task,
    TaskId,
    Timer,
    TopologyTestDriver,
)
from kstreams_assign.allowed_values import GUARANTEES
from kstreams_assign.events import FunctionFailedEvent, RecordSetAsideEvent

NOW_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.CRITICAL, "kstreams_assign"):
        yield


@pytest.fixture(params=GUARANTEES)
def guarantee(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ignore(_task: Task, _records: Sequence[Record]) -> None:
    """The records matter by their times alone."""


def remind(task: Task, records: Sequence[Record]) -> None:
    """Set a timer for the time in the value."""
    for record in records:
        assert record.key is not None
        task.timers.set(record.key, int(record.value or b"0"))


def fire(task: Task, due: Sequence[Timer]) -> None:
    for timer in due:
        task.emit("out", timer.key, b"%d" % timer.at_ms)


def driver_of(
    process: Callable[[Task, Sequence[Record]], None] = ignore, *, settings: dict[str, Any] | None = None, **sub: Any
) -> TopologyTestDriver:
    topology = [Subtopology(process, sources=["in"], stores=["kept"], sinks=["out"], **sub)]
    return TopologyTestDriver(topology, now_ms=NOW_MS, **(settings or {}))


def outputs(driver: TopologyTestDriver) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in driver.read("out")]


def punctuate(task: Task, time_ms: int) -> None:
    task.emit("out", b"at", b"%d" % time_ms)


# --- punctuators ------------------------------------------------------------------------


def test_stream_time_calls_with_the_first_record_and_then_once_for_all_missed_intervals(guarantee: str) -> None:
    def setup(task: Task) -> None:
        task.every(100, punctuate)

    with driver_of(init=setup, settings={"processing_guarantee": guarantee}) as driver:
        driver.advance(10_000)
        assert outputs(driver) == []  # no stream time before the first record
        for time_ms in (250, 299, 300, 250, 950, 999, 1_000):
            driver.pipe("in", b"k", b"", time_ms)
        written = driver.read("out")
        assert [record.value for record in written] == [b"250", b"300", b"950", b"1000"]
        assert [record.timestamp_ms for record in written] == [250, 300, 950, 1_000]


def test_the_wall_clock_calls_after_an_interval_without_records(guarantee: str) -> None:
    def setup(task: Task) -> None:
        task.every(100, punctuate, clock="wall")

    with driver_of(init=setup, settings={"processing_guarantee": guarantee}) as driver:
        for ms in (99, 1, 250, 49, 1):
            driver.advance(ms)
        assert outputs(driver) == [(b"at", b"%d" % (NOW_MS + ms)) for ms in (100, 350, 400)]


def test_a_punctuator_cancels_itself_and_may_be_scheduled_by_the_function() -> None:
    scheduled: list[Punctuation] = []

    def once(task: Task, time_ms: int) -> None:
        punctuate(task, time_ms)
        scheduled[0].cancel()

    def process(task: Task, _records: Sequence[Record]) -> None:
        if not scheduled:
            scheduled.append(task.every(10, once))

    with driver_of(process) as driver:
        driver.pipe("in", b"k", b"", 5)
        driver.pipe("in", b"k", b"", 500)
        assert outputs(driver) == [(b"at", b"5")]


def test_what_a_punctuator_writes_is_committed_without_records(guarantee: str) -> None:
    def count_calls(task: Task, _time_ms: int) -> None:
        kept = task.store("kept")
        kept.put(b"calls", b"%d" % (int(kept.get(b"calls") or 0) + 1))

    def setup(task: Task) -> None:
        task.every(1_000, count_calls, clock="wall")
        task.store("kept").put(b"began", b"%d" % task.current_system_time_ms())

    with driver_of(init=setup, settings={"processing_guarantee": guarantee}) as driver:
        assert driver.store("kept").get(b"began") == b"%d" % NOW_MS
        driver.advance(1_000)
        driver.advance(1_000)
        assert driver.store("kept").get(b"calls") == b"2"
        driver.fail_next_commit()
        driver.advance(1_000)  # the task starts again, and so does its schedule
        assert driver.store("kept").get(b"calls") == b"2"
        driver.advance(1_000)
        assert driver.store("kept").get(b"calls") == b"3"


def test_stream_time_continues_at_the_committed_times_of_a_task_that_starts_again() -> None:
    seen: list[int | None] = []

    def setup(task: Task) -> None:
        seen.append(task.current_stream_time_ms())

    with driver_of(init=setup) as driver:
        driver.pipe("in", b"k", b"", 700)
        driver.pipe("in", b"k", b"", 300)
        driver.fail_next_commit()
        driver.pipe("in", b"k", b"", 400)
    assert seen == [None, 700]


def test_current_stream_time_includes_the_record_at_work() -> None:
    seen: list[int | None] = []

    def process(task: Task, records: Sequence[Record]) -> None:
        seen.extend(task.current_stream_time_ms() for _ in records)

    with driver_of(process) as driver:
        for time_ms in (5, 9, 7):
            driver.pipe("in", b"k", b"", time_ms)
    assert seen == [5, 9, 9]


def test_current_stream_time_does_not_depend_on_the_size_of_batches() -> None:
    times = [5, 9, 7, 3, 12, 11]
    expected = [5, 9, 9, 9, 12, 12]

    def seen_by(read: Callable[[Sequence[Record]], Iterable[object]], records_max: int) -> list[int | None]:
        seen: list[int | None] = []

        def process(task: Task, records: Sequence[Record]) -> None:
            seen.extend(task.current_stream_time_ms() for _ in read(records))

        with driver_of(process, settings={"max_poll_records": records_max}) as driver:
            driver.pipe_many("in", [(b"k", b"")] * len(times), times)
        return seen

    def by_pairs(records: Sequence[Record]) -> Iterable[object]:
        assert isinstance(records, Batch)
        return records.pairs(key=bytes, value=str)

    def by_index(records: Sequence[Record]) -> Iterable[object]:
        return (records[index] for index in range(len(records)))

    for records_max in (1, 2, 100):
        for read in (iter, by_pairs, by_index):
            assert seen_by(read, records_max) == expected
    assert seen_by(lambda records: records[-1:] if list(records) else (), 100) == [12]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((0, punctuate), "every: interval_ms = 0: must be a whole number >= 1"),
        ((True, punctuate), "every: interval_ms = True"),
        ((1, punctuate, "event"), "every: clock = 'event': must be 'stream' or 'wall'"),
        ((1, lambda: None), r"every: call = .*: must be a function \(task, time_ms\)"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(arguments: tuple[Any, ...], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        driver_of(init=lambda task: task.every(*arguments))


# --- keyed timers -----------------------------------------------------------------------


@pytest.mark.parametrize("clock", ["stream", "wall"])
def test_a_timer_fires_once_when_its_clock_reaches_it(guarantee: str, clock: str) -> None:
    start_ms = 1_000 if clock == "stream" else NOW_MS

    def advance(ms: int) -> None:
        if clock == "stream":
            driver.pipe("in", b"other", b"%d" % 2**62, start_ms + ms)
        else:
            driver.advance(start_ms + ms - driver.now_ms)

    with driver_of(
        remind, timers=fire, timers_clock=clock, settings={"processing_guarantee": guarantee, "max_poll_records": 2}
    ) as driver:
        for number in range(5):
            driver.pipe("in", b"k%d" % number, b"%d" % (start_ms + 10 * (5 - number)), start_ms)
        advance(9)
        assert outputs(driver) == []
        advance(30)
        written = driver.read("out")
        assert [record.key for record in written] == [b"k4", b"k3", b"k2"]
        assert [record.timestamp_ms for record in written] == [start_ms + ms for ms in (10, 20, 30)]
        advance(45)
        advance(1_000)
        assert [key for key, _ in outputs(driver)] == [b"k1", b"k0"]
        assert [timer.key for timer in driver.timers()] == ([b"other"] if clock == "stream" else [])


def test_a_timer_is_replaced_cancelled_and_read() -> None:
    def process(task: Task, records: Sequence[Record]) -> None:
        timers = task.timers
        for record in records:
            timers.set(b"k", 100)
            timers.set(b"k", 200)
            timers.set(b"k", 300, "other")
            timers.set(b"gone", 100)
            assert (timers.get(b"k"), timers.get(b"k", "other"), timers.get(b"x")) == (200, 300, None)
            assert (timers.cancel(b"gone"), timers.cancel(b"gone"), timers.get(b"gone")) == (True, False, None)
            assert record.key is not None

    with driver_of(process, timers=fire) as driver:
        driver.pipe("in", b"k", b"", 50)
        assert driver.timers() == [Timer(b"k", 200), Timer(b"k", 300, "other")]


def test_a_timer_that_sets_itself_again_comes_again(guarantee: str) -> None:
    def again(task: Task, due: Sequence[Timer]) -> None:
        for timer in due:
            assert task.timers.get(timer.key) is None
            task.emit("out", timer.key, b"%d" % timer.at_ms)
            task.timers.set(timer.key, timer.at_ms + 100)

    with driver_of(remind, timers=again, timers_clock="wall", settings={"processing_guarantee": guarantee}) as driver:
        driver.pipe("in", b"k", b"%d" % NOW_MS)
        driver.advance(250)
        assert outputs(driver) == [(b"k", b"%d" % (NOW_MS + ms)) for ms in (0, 100, 200)]
        assert driver.timers() == [Timer(b"k", NOW_MS + 300)]


def test_a_timer_whose_commit_fails_fires_again_and_is_committed_once(guarantee: str) -> None:
    with driver_of(remind, timers=fire, timers_clock="wall", settings={"processing_guarantee": guarantee}) as driver:
        driver.pipe("in", b"k", b"%d" % (NOW_MS + 10))
        driver.fail_next_commit()
        driver.advance(10)
        fired = outputs(driver)
        assert fired == [(b"k", b"%d" % (NOW_MS + 10))] * (1 if guarantee == "exactly_once_v2" else 2)
        assert driver.timers() == []


def test_what_is_due_fires_before_further_records_are_processed() -> None:
    story: list[bytes] = []

    def process(task: Task, records: Sequence[Record]) -> None:
        story.extend(record.key or b"" for record in records)
        remind(task, records)

    def tell(_task: Task, due: Sequence[Timer]) -> None:
        story.extend(b"timer " + timer.key for timer in due)

    with driver_of(process, timers=tell, settings={"max_poll_records": 1}) as driver:
        driver.pipe_many("in", [(b"a", b"150"), (b"b", b"999"), (b"c", b"999")], [100, 200, 300])
    assert story == [b"a", b"timer a", b"b", b"c"]


def test_what_is_due_fires_between_two_batches_of_one_poll() -> None:
    story: list[int | str] = []

    def process(task: Task, records: Sequence[Record]) -> None:
        for record in records:
            story.append(record.timestamp_ms)
            if record.timestamp_ms == 7:
                task.timers.set(b"k", 20)

    def tell(_task: Task, due: Sequence[Timer]) -> None:
        story.extend("timer" for _ in due)

    with driver_of(process, timers=tell) as driver:
        driver.pipe_many("in", [(b"k", b"")] * 100, range(100))
    assert story == [*range(20), "timer", *range(20, 100)]  # the first batch has 16 records


def test_nothing_fires_while_a_task_is_paused_and_all_that_is_due_when_it_is_resumed() -> None:
    def setup(task: Task) -> None:
        task.every(10, punctuate, clock="wall")

    with driver_of(remind, init=setup, timers=fire, timers_clock="wall") as driver:
        driver.pipe("in", b"k", b"%d" % (NOW_MS + 15))
        driver.pause()
        driver.advance(45)
        assert outputs(driver) == []
        driver.resume()
        driver.advance(0)
        assert outputs(driver) == [(b"at", b"%d" % (NOW_MS + 45)), (b"k", b"%d" % (NOW_MS + 15))]


def test_a_wall_clock_timer_that_is_always_due_lets_records_pass() -> None:
    story: list[str] = []

    def process(task: Task, records: Sequence[Record]) -> None:
        story.extend((record.key or b"").decode() for record in records)
        if story == ["a"]:
            task.timers.set(b"k", 0)

    def again(task: Task, due: Sequence[Timer]) -> None:
        story.append("timer")
        assert len(story) < 100
        if "c" not in story:
            task.timers.set(due[0].key, 0)

    settings = {"max_poll_records": 1}
    with driver_of(process, timers=again, timers_clock="wall", settings=settings) as driver:
        driver.pipe_many("in", [(b"a", b""), (b"b", b""), (b"c", b"")])
    assert [each for each in story if each != "timer"] == ["a", "b", "c"]
    assert "timer" in story[story.index("a") : story.index("b")]


@pytest.mark.parametrize("records_max", [4, 40])
def test_wall_clock_timers_have_their_turn_where_each_batch_fills_a_commit(records_max: int) -> None:
    story: list[str] = []

    def process(task: Task, records: Sequence[Record]) -> None:
        for record in records:
            assert record.key is not None
            story.append("record")
            task.timers.set(record.key, 0)

    def tell(_task: Task, due: Sequence[Timer]) -> None:
        story.extend("timer" for _ in due)

    settings = {"buffered_records_max": records_max}
    with driver_of(process, timers=tell, timers_clock="wall", settings=settings) as driver:
        driver.pipe_many("in", [(b"%d" % number, b"") for number in range(160)])
    assert story.count("timer") == 160
    assert "timer" in story[:41]


def test_timers_are_kept_in_a_store_that_only_they_use() -> None:
    def process(task: Task, _records: Sequence[Record]) -> None:
        task.store("reminders")

    with (
        pytest.raises(ConfigError, match=r"store 'reminders': keeps the keyed timers; use task\.timers"),
        driver_of(process, timers=fire, timers_store="reminders") as driver,
    ):
        driver.pipe("in", b"k", b"")
    with pytest.raises(ConfigError, match="timers_store = 'kept': is also among the stores"):
        driver_of(timers=fire, timers_store="kept")


def test_timers_that_are_not_declared_are_refused_with_the_fix() -> None:
    with pytest.raises(ConfigError, match=r"declares none; write Subtopology\(\.\.\., timers=function\)"):
        driver_of(init=lambda task: task.timers.set(b"k", 1))


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (("k", 1), TypeError, "task 0_0, timers, in-0 at offset 0: key is str 'k': must be bytes"),
        ((b"k", 1.5), TypeError, "at_ms is float 1.5: must be int"),
        ((b"k", -1), ValueError, "at_ms = -1: must be from 0 to 2"),
        ((b"k", 2**63), ValueError, "at_ms = 9223372036854775808"),
        ((b"k", 1, b"n"), TypeError, "name is bytes b'n': must be str"),
        ((b"k", 1, b""), TypeError, "name is bytes b'': must be str"),
        ((b"k", 1, "é" * 128), ValueError, "must be at most 255 bytes in UTF-8"),
        ((b"k", 1, "\ud800"), ValueError, r"timers, in-0 at offset 0: name = '.ud800': must be text that UTF-8 can"),
    ],
)
def test_a_timer_that_cannot_be_set_is_refused(arguments: tuple[Any, ...], error: type[Exception], says: str) -> None:
    def process(task: Task, _records: Sequence[Record]) -> None:
        task.timers.set(*arguments)

    with pytest.raises(error, match=says), driver_of(process, timers=fire) as driver:
        driver.pipe("in", b"k", b"")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"timers_clock": "event"}, "timers_clock = 'event': must be 'stream' or 'wall'"),
        ({"timers_store": ""}, "timers_store = '': must be a non-empty string"),
        ({"timers": lambda _task: None}, r"timers = .*: must be a function \(task, due\)"),
        ({"init": lambda: None}, r"init = .*: must be a function \(task\)"),
        ({"init": 3}, r"init = 3: must be a function \(task\)"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Subtopology(ignore, sources=["in"], **arguments)


# --- errors -----------------------------------------------------------------------------


def fail_for_poison(task: Task, due: Sequence[Timer]) -> None:
    for timer in due:
        if timer.key == b"poison":
            raise ValueError("poison")
        task.emit("out", timer.key, b"fired")


DEAD = {"errors_dead_letter_queue_topic_name": "dead", "max_poll_records": 100}


@pytest.mark.parametrize("on_error", ["skip", "dead_letter"])
def test_only_the_guilty_timer_is_set_aside(guarantee: str, on_error: str) -> None:
    events: list[Event] = []
    settings = {**DEAD, "processing_guarantee": guarantee, "on_event": events.append}
    with driver_of(remind, timers=fail_for_poison, timers_clock="wall", on_error=on_error, settings=settings) as driver:
        keys = [b"k%d" % number for number in range(20)]
        keys[7] = b"poison"
        driver.pipe_many("in", [(key, b"%d" % (NOW_MS + number)) for number, key in enumerate(keys)])
        driver.advance(100)
        assert outputs(driver) == [(key, b"fired") for key in keys if key != b"poison"]
        assert driver.timers() == []
        if on_error == "dead_letter":
            [letter] = driver.read("dead")
            assert (letter.key, letter.timestamp_ms) == (b"poison", NOW_MS + 7)
            assert [text for _, text in letter.headers or ()][:2] == [b"ValueError", b"poison"]  # exception, message
    [event] = [event for event in events if isinstance(event, RecordSetAsideEvent)]
    assert (event.call, event.partition, event.response) == ("timers, 1 due", "", on_error)


def test_a_timer_that_sets_itself_again_and_fails_is_set_aside_once() -> None:
    calls: list[bytes] = []

    def again(task: Task, due: Sequence[Timer]) -> None:
        for timer in due:
            calls.append(timer.key)
            task.timers.set(timer.key, timer.at_ms)
            if len(calls) < 5:
                raise ValueError("no")

    with driver_of(remind, timers=again, on_error="skip") as driver:
        driver.pipe("in", b"k", b"3", 5)
        assert (calls, driver.timers()) == ([b"k"], [])


def test_a_timer_that_fails_ends_the_driver_with_its_task_named() -> None:
    events: list[Event] = []
    with (
        pytest.raises(ValueError, match="poison") as raised,
        driver_of(remind, timers=fail_for_poison, settings={"on_event": events.append}) as driver,
    ):
        driver.pipe("in", b"poison", b"3", 5)
    assert raised.value.__notes__ == ["task 0_0, timers, 1 due"]
    [event] = [event for event in events if isinstance(event, FunctionFailedEvent)]
    assert (event.task, event.call, event.records) == ("0_0", "timers, 1 due", 1)
    assert [timer.key for timer in driver.timers()] == []  # the record was not committed either


def test_a_punctuator_that_fails_is_skipped_and_called_again_at_its_next_time() -> None:
    calls: list[int] = []

    def fails_first(task: Task, time_ms: int) -> None:
        calls.append(time_ms - NOW_MS)
        task.store("kept").put(b"%d" % (time_ms - NOW_MS), b"")
        if len(calls) == 1:
            raise ValueError

    def setup(task: Task) -> None:
        task.every(10, fails_first, clock="wall")

    with driver_of(init=setup, on_error="dead_letter", settings=DEAD) as driver:
        driver.advance(10)
        driver.advance(10)
        assert (calls, list(driver.store("kept").range())) == ([10, 20], [(b"20", b"")])
        assert "dead" not in driver.written_topics()


@pytest.mark.parametrize("bad", [1, 2, 3])
def test_punctuators_of_a_batch_that_is_undone_are_called_once(guarantee: str, bad: int) -> None:
    first: list[Punctuation] = []

    def process(task: Task, records: Sequence[Record]) -> None:
        for record in records:
            if record.value == b"begin":
                first.append(task.every(10, punctuate, clock="wall"))
            if record.value == b"end":
                first[0].cancel()
            if record.value == b"bad":
                task.every(10, punctuate, clock="wall")
                raise ValueError

    values = [b"begin", b"", b""]
    values.insert(bad, b"bad")
    with driver_of(process, on_error="skip", settings={"processing_guarantee": guarantee}) as driver:
        driver.pipe_many("in", [(b"k", value) for value in values])
        driver.advance(10)
        assert outputs(driver) == [(b"at", b"%d" % (NOW_MS + 10))]
        del first[:-1]  # the schedule that was not undone
        driver.pipe_many("in", [(b"k", b"end"), (b"k", b"bad")])
        driver.advance(10)
        assert outputs(driver) == []


def test_init_that_fails_ends_the_driver_whatever_on_error_says() -> None:
    def setup(_task: Task) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as raised:
        driver_of(init=setup, on_error="skip")
    assert raised.value.__notes__ == ["task 0_0, init"]


# --- what the metrics count ---------------------------------------------------------------


def test_fired_timers_and_expired_entries_count_with_the_commit_that_has_them(guarantee: str) -> None:
    def process(task: Task, records: Sequence[Record]) -> None:
        remind(task, records)
        for record in records:
            assert record.key is not None
            task.store("sessions").put(record.key, b"")

    sub = Subtopology(process, sources=["in"], stores=[Store("sessions", ttl_ms=1_000)], sinks=["out"], timers=fire)
    with TopologyTestDriver([sub], now_ms=NOW_MS, processing_guarantee=guarantee) as driver:
        commits, task = driver._loop.commits, TaskId(0, 0)
        driver.pipe("in", b"a", b"500", 0)
        driver.pipe("in", b"b", b"500", 0)
        assert (commits.timers_fired(), commits.entries_expired()) == ({}, {})
        driver.fail_next_commit()
        driver.pipe("in", b"c", b"9000", 2_000)
        assert {*outputs(driver)} == {(b"a", b"500"), (b"b", b"500")}
        assert (commits.timers_fired(), commits.entries_expired()) == ({task: 2}, {task: 2})


def test_calls_of_punctuators_are_counted() -> None:
    def setup(task: Task) -> None:
        task.every(1_000, punctuate, clock="wall")

    with driver_of(init=setup) as driver:
        assert driver._functions.punctuated_total == 0
        driver.advance(1_000)
        driver.advance(999)
        driver.advance(1)
        assert driver._functions.punctuated_total == 2
