"""Timers that a call reads one after the other, against a dictionary; and changelogs that break off in it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign.tasks.timers import TakenTimers, Timer, TimerQueue, index_key, pending, time_key
from tests.samples import examples
from tests.tasks.test_timers import KEYS, NAMES, Store

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["set", "set", "cancel", "cancel", "read", "read", "take", "take", "done", "raise"]),
        KEYS,
        st.integers(0, 12),
        NAMES,
    ),
    max_size=40,
)


def read_next(call: TakenTimers) -> Timer | None:
    """Return the next timer that fires in a call, as an iteration over it does."""
    while call.fired < len(call):
        timer = call[call.fired]
        call.fired += 1
        if timer not in call.withdrawn:
            return timer
    return None


class SlowTimers:
    """Timers in a dictionary, and those of the call at work that it has not read."""

    def __init__(self) -> None:
        self.timers: dict[tuple[bytes, str], int] = {}
        self.unread: list[Timer] = []

    def take(self, now_ms: int, timers_max: int) -> list[Timer]:
        due = sorted((at_ms, len(name.encode()), name, key) for (key, name), at_ms in self.timers.items())
        self.unread = [Timer(key, at_ms, name) for at_ms, _, name, key in due if at_ms <= now_ms][:timers_max]
        return list(self.unread)

    def read_next(self) -> Timer | None:
        if not self.unread:
            return None
        timer = self.unread.pop(0)
        del self.timers[timer.key, timer.name]
        return timer

    def withdraw(self, key: bytes, name: str) -> None:
        self.unread = [timer for timer in self.unread if (timer.key, timer.name) != (key, name)]

    def set(self, timer: Timer) -> None:
        if timer not in self.unread:
            self.withdraw(timer.key, timer.name)
        self.timers[timer.key, timer.name] = timer.at_ms

    def cancel(self, key: bytes, name: str) -> bool:
        self.withdraw(key, name)
        return self.timers.pop((key, name), None) is not None

    def done(self) -> None:
        while self.read_next() is not None:
            pass


@settings(max_examples=examples(300))
@given(STEPS, st.integers(1, 4), st.integers(1, 6))
def test_a_call_withdraws_timers_that_it_has_not_read(
    steps: list[tuple[str, bytes, int, str]], ahead: int, at_once: int
) -> None:
    store, slow, call = Store(), SlowTimers(), TakenTimers()
    queue = TimerQueue(store, ahead)
    before, timers_before = store.content(), dict(slow.timers)
    for step, key, number, name in steps:
        match step:
            case "set":
                queue.set(Timer(key, number, name))
                slow.set(Timer(key, number, name))
            case "cancel":
                assert queue.cancel(key, name) == slow.cancel(key, name)
            case "read":
                assert read_next(call) == slow.read_next()
            case "take":
                queue.done(call)
                slow.done()
                before, timers_before = store.content(), dict(slow.timers)
                call = queue.take(number, at_once)
                call.fired = 0
                assert call == slow.take(number, at_once)
            case "done":
                fired = len(call) - len(call.withdrawn)
                assert queue.done(call) == fired
                slow.done()
                call = TakenTimers()
            case "raise" if call:
                store.undo(before)
                queue.undo()
                queue.forget()
                slow.timers, slow.unread, call = dict(timers_before), [], TakenTimers()
        assert {(timer.key, timer.name): timer.at_ms for timer in pending(store)}.items() >= slow.timers.items()
        for key_, name_ in {(key, name), *slow.timers}:
            assert queue.get(key_, name_) == slow.timers.get((key_, name_))
    queue.done(call)
    slow.done()
    assert {(timer.key, timer.name): timer.at_ms for timer in pending(store)} == slow.timers
    assert len(store.content()) == 2 * len(slow.timers)


@pytest.mark.parametrize("since_ms", [3, 20])
def test_a_timer_that_an_earlier_one_sets_again_for_its_time_is_due_since_then(since_ms: int) -> None:
    queue = TimerQueue(Store())
    for timer in (Timer(b"a", 1), Timer(b"b", 5)):
        queue.set(timer, 9)
    call = queue.take(10, 9)
    call.fired = 1
    queue.set(Timer(b"b", 5), since_ms)
    assert (read_next(call), queue.since_ms(Timer(b"b", 5))) == (Timer(b"b", 5), max(5, since_ms))
    assert (queue.done(call), queue.take(10, 9)) == (2, [])


def test_a_withdrawn_timer_is_deleted_at_once_and_a_fired_one_last() -> None:
    """A crash may keep only what comes first: then its canceller fires again, and it does not."""
    store = Store()
    queue = TimerQueue(store)
    timers = [Timer(b"a", 1), Timer(b"b", 2), Timer(b"c", 3)]
    for timer in timers:
        queue.set(timer)
    call = queue.take(9, 9)
    call.fired = 1
    store.log = []
    assert queue.cancel(b"b", "")
    queue.set(Timer(b"c", 20))
    queue.set(Timer(b"a", 30))
    deleted = [(key, last) for key, value, last in store.log if value is None]
    assert deleted == [
        (time_key(timers[1]), False),
        (index_key(b"b", ""), False),
        (time_key(timers[2]), False),
        (time_key(timers[0]), True),
    ]


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("arrived", range(8))
def test_a_changelog_that_breaks_off_brings_no_withdrawn_timer_back(arrived: int, moves: bool) -> None:
    """At least once, the call is made again by the next owner of the task, with what has arrived of its writes."""
    left = Store()

    def call(queue: TimerQueue) -> list[Timer]:
        """Fire all that is due, as one function: ``close`` withdraws ``escalate``."""
        timers, fired = queue.take(10, 9), []
        timers.fired = 0
        while (timer := read_next(timers)) is not None:
            fired.append(timer)
            if timer.name == "close" and moves:
                queue.set(Timer(b"case", 99, "escalate"))
            elif timer.name == "close":
                queue.cancel(b"case", "escalate")
        queue.done(timers)
        return fired

    close, escalate = Timer(b"case", 2, "close"), Timer(b"case", 4, "escalate")
    queue = TimerQueue(left)
    for timer in (close, escalate):
        queue.set(timer)
    before, left.log = left.content(), []
    assert call(queue) == [close]
    writes = [*(each for each in left.log if not each[2]), *(each for each in left.log if each[2])]
    assert len(writes) <= 8
    left.undo(before)
    left.stores.write({"timers": [(key, value) for key, value, _ in writes[:arrived]]}, {})
    assert call(TimerQueue(left)) == ([] if (time_key(close), None, True) in writes[:arrived] else [close])
    assert list(pending(left)) == ([Timer(b"case", 99, "escalate")] if moves else [])
