"""One call with many timers does what calls with one timer each do: a timer cancels and moves those behind it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign import Record, Subtopology, Task, TaskId, Timer, TopologyTestDriver
from kstreams_assign.allowed_values import GUARANTEES
from tests.samples import examples

CLOSE_MS, ESCALATE_MS, GAP_MS = 1_000, 5_000, 50_000
OPENED_MS = 1_000
CLOCKS = ("stream", "wall")
Call = Callable[[Task, Sequence[Timer]], None]


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.CRITICAL, "kstreams_assign"):
        yield


@pytest.fixture(params=CLOCKS)
def clock(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=GUARANTEES)
def guarantee(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[1, 2_000])
def timers_max(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def opened(task: Task, records: Sequence[Record]) -> None:
    """A case is closed after a second; if it is not, it escalates."""
    for record in records:
        if record.key is not None:
            task.timers.set(record.key, OPENED_MS + CLOSE_MS, "close")
            task.timers.set(record.key, OPENED_MS + ESCALATE_MS, "escalate")


def cancels(task: Task, due: Sequence[Timer]) -> None:
    for timer in due:
        if timer.name == "close":
            was_set_ms = task.timers.get(timer.key, "escalate")
            cancelled = task.timers.cancel(timer.key, "escalate")
            left_ms = task.timers.get(timer.key, "escalate")
            again = task.timers.cancel(timer.key, "escalate")
            task.emit("out", timer.key, repr((was_set_ms, cancelled, left_ms, again)).encode())
        else:
            task.emit("out", timer.key, b"escalated")


def moves(to_ms: int) -> Call:
    def due(task: Task, due: Sequence[Timer]) -> None:
        for timer in due:
            task.emit("out", timer.key, b"%s at %d" % (timer.name.encode(), timer.at_ms))
            if timer.name == "close":
                task.timers.set(timer.key, to_ms, "escalate")
                assert task.timers.get(timer.key, "escalate") == to_ms

    return due


def driver_of(timers: Call, clock: str, process: object = opened, **options: object) -> TopologyTestDriver:
    subtopology = Subtopology(
        process,  # type: ignore[arg-type]
        sources=["in"],
        sinks=["out"],
        timers=timers,
        timers_clock=clock,  # type: ignore[arg-type]
        on_error="skip",
    )
    return TopologyTestDriver([subtopology], now_ms=OPENED_MS, **options)  # type: ignore[arg-type]


def pass_to(driver: TopologyTestDriver, clock: str, at_ms: int) -> None:
    if clock == "stream":
        driver.pipe("in", None, b"", at_ms)
    else:
        driver.advance(at_ms - driver.now_ms)


def written(driver: TopologyTestDriver) -> list[bytes | None]:
    return [record.value for record in driver.read("out")]


def play(timers: Call, clock: str, **options: object) -> tuple[list[bytes | None], list[Timer]]:
    """Open a case, and let the clock pass all its timers at once; return what is written, and the timers left."""
    with driver_of(timers, clock, **options) as driver:
        driver.pipe("in", b"case", b"", OPENED_MS)
        pass_to(driver, clock, GAP_MS)
        return written(driver), driver.timers()


def test_a_timer_that_an_earlier_one_cancels_does_not_fire(clock: str, guarantee: str, timers_max: int) -> None:
    played = play(cancels, clock, processing_guarantee=guarantee, max_poll_records=timers_max)
    assert played == ([b"(%d, True, None, False)" % (OPENED_MS + ESCALATE_MS)], [])


def test_a_timer_that_an_earlier_one_moves_fires_at_its_new_time(clock: str, guarantee: str, timers_max: int) -> None:
    with driver_of(moves(2 * GAP_MS), clock, processing_guarantee=guarantee, max_poll_records=timers_max) as driver:
        driver.pipe("in", b"case", b"", OPENED_MS)
        pass_to(driver, clock, GAP_MS)
        assert written(driver) == [b"close at 2000"]
        assert driver.timers() == [Timer(b"case", 2 * GAP_MS, "escalate")]
        pass_to(driver, clock, 3 * GAP_MS)
        assert (written(driver), driver.timers()) == ([b"escalate at 100000"], [])


@pytest.mark.parametrize("to_ms", [0, OPENED_MS + CLOSE_MS, OPENED_MS + ESCALATE_MS, OPENED_MS + ESCALATE_MS + 1])
def test_a_timer_that_an_earlier_one_sets_for_a_time_that_is_past_fires_once(
    clock: str, timers_max: int, to_ms: int
) -> None:
    played = play(moves(to_ms), clock, max_poll_records=timers_max)
    assert played == ([b"close at 2000", b"escalate at %d" % to_ms], [])


def test_a_commit_that_fails_brings_a_cancelled_timer_back_and_its_canceller_before_it(
    clock: str, guarantee: str, timers_max: int
) -> None:
    with driver_of(cancels, clock, processing_guarantee=guarantee, max_poll_records=timers_max) as driver:
        driver.pipe("in", b"case", b"", OPENED_MS)
        driver.fail_next_commit()
        pass_to(driver, clock, GAP_MS)
        assert b"escalated" not in written(driver)
        assert driver.timers() == []


def test_a_call_that_raises_takes_back_what_it_cancelled(clock: str, guarantee: str, timers_max: int) -> None:
    """The timers fire in smaller calls then, and the guilty one cancels nothing."""

    def due(task: Task, due: Sequence[Timer]) -> None:
        for timer in due:
            if timer.key == b"bad" and timer.name == "close":
                task.timers.cancel(b"bad", "escalate")
                task.timers.set(b"case 1", 3 * GAP_MS, "escalate")
                raise ValueError("bad")
            cancels(task, [timer])

    with driver_of(due, clock, processing_guarantee=guarantee, max_poll_records=timers_max) as driver:
        driver.pipe_many("in", [(key, b"") for key in (b"bad", b"case 1", b"case 2")], [OPENED_MS] * 3)
        pass_to(driver, clock, GAP_MS)
        cancelled = b"(%d, True, None, False)" % (OPENED_MS + ESCALATE_MS)
        assert [(record.key, record.value) for record in driver.read("out")] == [
            (b"case 1", cancelled),
            (b"case 2", cancelled),
            (b"bad", b"escalated"),
        ]
        assert driver.timers() == []


def test_code_that_has_read_all_timers_gets_those_that_it_cancels(clock: str) -> None:
    def due(task: Task, due: Sequence[Timer]) -> None:
        cancels(task, list(due))

    assert play(due, clock) == ([b"(None, False, None, False)", b"escalated"], [])


READS: dict[str, Callable[[Sequence[Timer]], object]] = {
    "len": len,
    "bool": bool,
    "repr": repr,
    "to the end": list,
    "the first": lambda due: due[0],
    "a slice of the first": lambda due: due[:1],
    "the last": lambda due: due[-1],
    "a slice": lambda due: due[1:],
    "backwards": lambda due: next(reversed(due)),
}


@pytest.mark.parametrize("read", READS)
def test_a_timer_counts_as_fired_once_it_was_read(read: str) -> None:
    found: list[bool] = []

    def due(task: Task, due: Sequence[Timer]) -> None:
        READS[read](due)
        found.append(task.timers.cancel(b"case", "escalate"))
        assert task.timers.get(b"case", "close") is None, "the first timer is at work from the beginning"
        passes = [[timer.name for timer in due] for _ in range(2)]
        assert passes == [["close"] if found[0] else ["close", "escalate"]] * 2

    play(due, "wall")
    assert found == [list(READS).index(read) < list(READS).index("to the end")]


def test_only_timers_that_have_fired_are_counted_as_fired() -> None:
    with driver_of(cancels, "wall") as driver:
        driver.pipe("in", b"case", b"", OPENED_MS)
        driver.advance(GAP_MS)
        assert driver._loop.commits.timers_fired() == {TaskId(0, 0): 1}


# --- at random: calls with many timers against calls with one --------------------------------------


class Step(NamedTuple):
    """What a timer's call does to the timer of a key and name: ``"move"`` beyond the clock, by so much."""

    what: str
    key: bytes
    name: str
    by_ms: int


KEYS, NAMES = st.sampled_from([b"a", b"b", b"c", b"d"]), st.sampled_from(["", "n"])
STEPS = st.lists(
    st.builds(Step, st.sampled_from(["cancel", "move", "set again", "get"]), KEYS, NAMES, st.integers(1, 50)),
    max_size=3,
)
TIMERS = st.dictionaries(st.tuples(KEYS, NAMES), st.tuples(st.integers(0, 20), STEPS, st.booleans()), max_size=8)
"""By key and name: when the timer is due, what its call does the first time, and whether it raises then."""
Plan = dict[tuple[bytes, str], tuple[int, list[Step], bool]]


def do(task: Task, step: Step) -> tuple[bool, int | None]:
    """Do a step; return what cancels say, and for when the timer is set then."""
    what, key, name, by_ms = step
    cancelled = what == "cancel" and task.timers.cancel(key, name)
    set_for_ms = task.timers.get(key, name)
    if what == "move":
        task.timers.set(key, GAP_MS + by_ms, name)
    elif what == "set again" and set_for_ms is not None:
        task.timers.set(key, set_for_ms, name)
    return cancelled, task.timers.get(key, name)


def story_of(plan: Plan, clock: str, timers_max: int, guarantee: str) -> tuple[list[bytes | None], list[Timer]]:
    """Let one clock pass all timers at once, and then what they were moved to."""

    def set_all(task: Task, records: Sequence[Record]) -> None:
        for record in records:
            if record.key is not None:
                for (key, name), (at_ms, _, _) in plan.items():
                    task.timers.set(key, OPENED_MS + at_ms, name)

    def due(task: Task, due: Sequence[Timer]) -> None:
        for timer in due:
            at_ms, steps, raises = plan[timer.key, timer.name]
            did = [do(task, step) for step in steps] if timer.at_ms == OPENED_MS + at_ms else []
            task.emit("out", timer.key, f"{timer} {did}".encode())
            if raises:
                raise ValueError

    with driver_of(due, clock, set_all, max_poll_records=timers_max, processing_guarantee=guarantee) as driver:
        driver.pipe("in", b"", b"", OPENED_MS)
        pass_to(driver, clock, GAP_MS)
        left = driver.timers()
        pass_to(driver, clock, 2 * GAP_MS)
        assert driver.timers() == []
        return written(driver), left


@settings(max_examples=examples(150), deadline=None)
@given(TIMERS, st.sampled_from(CLOCKS), st.integers(2, 12), st.sampled_from(GUARANTEES))
def test_a_call_with_many_timers_does_what_calls_with_one_do(
    plan: Plan, clock: str, timers_max: int, guarantee: str
) -> None:
    assert story_of(plan, clock, timers_max, guarantee) == story_of(plan, clock, 1, guarantee)
