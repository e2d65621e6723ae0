"""Keyed timers against a dictionary, with undone writes, a small read-ahead and changelogs that break off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kstreams_assign.tasks.memory_stores import MemoryStores
from kstreams_assign.tasks.timers import (
    NAME_BYTES_MAX,
    TIME_MAX,
    Timer,
    TimerQueue,
    index_key,
    pending,
    read_time_key,
    time_key,
)
from tests.samples import examples


class Store:
    """A store that keeps the order of its writes, and counts its reads."""

    def __init__(self) -> None:
        self.stores = MemoryStores(["timers"])
        self.log: list[tuple[bytes, bytes | None, bool]] = []
        self.ranges = 0
        self.reads = 0

    def get(self, key: bytes) -> bytes | None:
        self.reads += 1
        return self.stores.get("timers", key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self.reads += 1
        return self.stores.get_many("timers", keys)

    def range(self, start: bytes | None, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        self.ranges += 1
        return self.stores.range("timers", start, end)

    def put(self, key: bytes, value: bytes) -> None:
        self._write(key, value, last=False)

    def delete(self, key: bytes) -> None:
        self._write(key, None, last=False)

    def delete_last(self, key: bytes) -> None:
        self._write(key, None, last=True)

    def _write(self, key: bytes, value: bytes | None, *, last: bool) -> None:
        self.stores.write({"timers": [(key, value)]}, {})
        self.log.append((key, value, last))

    def undo(self, writes: dict[bytes, bytes]) -> None:
        self.stores.wipe()
        self.stores.write({"timers": list(writes.items())}, {})

    def content(self) -> dict[bytes, bytes]:
        return dict(self.stores.range("timers"))


KEYS = st.sampled_from([b"", b"a", b"b", b"t"])
NAMES = st.sampled_from(["", "n", "né"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.integers(0, 12), NAMES),
        st.tuples(st.just("cancel"), KEYS, st.just(0), NAMES),
        st.tuples(st.just("set, undone"), KEYS, st.integers(0, 12), NAMES),
        st.tuples(st.just("cancel, undone"), KEYS, st.just(0), NAMES),
        st.tuples(st.just("take"), st.just(b""), st.integers(0, 12), st.just("")),
        st.tuples(st.just("done"), st.just(b""), st.just(0), st.just("")),
        st.tuples(st.just("undo"), st.just(b""), st.just(0), st.just("")),
        st.tuples(st.just("restart"), st.just(b""), st.just(0), st.just("")),
    ),
    max_size=30,
)


@settings(max_examples=examples(200))
@given(STEPS, st.integers(1, 4), st.integers(1, 5))
@example(
    [("set", b"", 1, ""), ("take", b"", 1, ""), ("set", b"", 0, ""), ("take", b"", 0, ""), ("undo", b"", 0, "")], 1, 1
)
@example([("take", b"", 0, ""), ("set", b"a", 5, ""), ("set", b"a", 9, ""), ("take", b"", 0, "")], 4, 5)
@example(
    [("take", b"", 0, ""), ("set", b"a", 5, ""), ("cancel", b"a", 0, ""), ("set", b"a", 5, ""), ("take", b"", 5, "")],
    4,
    5,
)
@example(
    [("take", b"", 0, ""), ("set", b"a", 5, ""), ("set", b"a", 9, ""), ("set", b"a", 5, ""), ("take", b"", 5, "")], 4, 5
)
@example(
    [
        ("take", b"", 0, ""),
        ("set", b"a", 5, ""),
        ("set", b"b", 3, ""),
        ("set", b"b", 8, ""),
        ("set", b"t", 9, ""),
        ("take", b"", 0, ""),
    ],
    1,
    5,
)
@example(
    [
        ("take", b"", 0, ""),
        ("set", b"a", 5, ""),
        ("cancel", b"a", 0, ""),
        ("set", b"a", 5, ""),
        ("set", b"b", 6, ""),
        ("set", b"t", 7, ""),
        ("take", b"", 5, ""),
    ],
    1,
    5,
)
@example(
    [
        ("set", b"a", 5, ""),
        ("take", b"", 5, ""),
        ("set", b"b", 1, ""),
        ("set", b"t", 2, ""),
        ("set", b"", 3, ""),
        ("take", b"", 3, ""),
        ("done", b"", 0, ""),
        ("take", b"", 12, ""),
    ],
    1,
    5,
)
def test_timers_are_those_of_a_dictionary(  # noqa: C901, PLR0912  # a case for each step
    steps: list[tuple[str, bytes, int, str]], ahead: int, at_once: int
) -> None:
    store = Store()
    queue = TimerQueue(store, ahead)
    timers: dict[tuple[bytes, str], int] = {}
    taken: list[Timer] = []
    undone = False
    for step, key, number, name in steps:
        before = store.content()
        match step:
            case "set":
                queue.set(Timer(key, number, name))
                timers[key, name] = number
                taken = [timer for timer in taken if (timer.key, timer.name) != (key, name)]
            case "set, undone" | "cancel, undone":
                if step == "set, undone":
                    queue.set(Timer(key, number, name))
                else:
                    queue.cancel(key, name)
                store.undo(before)
                queue.undo()
                queue.take_again(taken)
                undone = True
            case "cancel":
                assert queue.cancel(key, name) == ((key, name) in timers)
                timers.pop((key, name), None)
                taken = [timer for timer in taken if (timer.key, timer.name) != (key, name)]
            case "take":
                assert not any(queue.due_ms() is None for at_ms in timers.values() if at_ms <= number)
                left = sorted((at_ms, len(name.encode()), name, key) for (key, name), at_ms in timers.items())
                expected = [Timer(key, at_ms, name) for at_ms, _, name, key in left if at_ms <= number][:at_once]
                assert queue.take(number, at_once) == expected
                taken += expected
                if len(expected) < at_once and (rest := [timer for timer in left if timer[0] > number]):
                    assert queue.due_ms() == rest[0][0] or (undone and (queue.due_ms() or 0) < rest[0][0])
                for timer in expected:
                    del timers[timer.key, timer.name]
            case "done":
                queue.done(taken)
                taken = []
            case "undo" | "restart":
                if step == "undo":
                    queue.forget()
                else:
                    queue = TimerQueue(store, ahead)
                undone = False
                timers |= {(timer.key, timer.name): timer.at_ms for timer in taken}
                taken = []
        for key_, name_ in {(key, name), *timers}:
            assert queue.get(key_, name_) == timers.get((key_, name_))
    queue.done(taken)
    assert {(timer.key, timer.name): timer.at_ms for timer in pending(store)} == timers


def test_a_timer_set_twice_for_the_same_time_fires_once_where_the_batch_before_it_had_a_cancelled_one() -> None:
    queue = TimerQueue(Store())
    assert queue.take(0, 1) == []
    for timer in (Timer(b"a", 1), Timer(b"b", 1), Timer(b"b", 1), Timer(b"c", 1)):
        queue.set(timer)
    queue.cancel(b"a", "")
    assert queue.take(1, 2) == [Timer(b"b", 1), Timer(b"c", 1)]


@pytest.mark.parametrize("arrived", [0, 1, 2])
def test_a_timer_that_is_set_only_if_there_is_none_is_not_lost_with_a_broken_commit(arrived: int) -> None:
    """Its input is processed again, with as many of the changelog's records as arrived."""

    def process(queue: TimerQueue) -> None:
        if queue.get(b"k", "") is None:
            queue.set(Timer(b"k", 10))

    first, second = Store(), Store()
    process(TimerQueue(first))
    second.stores.write({"timers": [(key, value) for key, value, _ in first.log[:arrived]]}, {})
    queue = TimerQueue(second)
    process(queue)
    assert queue.take(10, 5) == [Timer(b"k", 10)]


@given(st.lists(st.tuples(st.integers(0, TIME_MAX), st.text(max_size=5), st.binary(max_size=4)), max_size=8))
def test_entries_are_in_the_order_of_their_times_and_are_read_back(timers: list[tuple[int, str, bytes]]) -> None:
    keys = sorted(time_key(Timer(key, at_ms, name)) for at_ms, name, key in timers)
    read = list(map(read_time_key, keys))
    assert [timer.at_ms for timer in read] == sorted(at_ms for at_ms, _, _ in timers)
    assert sorted(read) == sorted(Timer(key, at_ms, name) for at_ms, name, key in timers)


def test_the_bytes_of_the_entries_stay_as_they_are() -> None:
    assert time_key(Timer(b"key", 258, "name")) == b"t\0\0\0\0\0\0\x01\x02\x04namekey"
    assert index_key(b"key", "name") == b"k\x04namekey"
    assert read_time_key(time_key(Timer(b"", 0, "x" * NAME_BYTES_MAX))).name == "x" * NAME_BYTES_MAX


def test_the_store_is_not_read_while_no_timer_is_due() -> None:
    store = Store()
    queue = TimerQueue(store)
    queue.take(0, 1)
    assert store.ranges == 1
    for number in range(500):
        queue.set(Timer(b"%d" % number, 1_000 + number))
        assert queue.due_ms() == 1_000
    assert queue.take(999, 10) == []
    assert len(queue.take(1_100, 1_000)) == 101
    assert store.ranges == 1


def test_few_timers_are_in_memory_and_the_others_are_read_in_their_turn() -> None:
    store = Store()
    queue = TimerQueue(store, ahead=10)
    queue.take(0, 1)
    for number in reversed(range(1_000)):
        queue.set(Timer(b"%d" % number, number))
        assert len(queue._front) <= 20
    taken: list[int] = []
    while timers := queue.take(TIME_MAX, 7):
        taken += [timer.at_ms for timer in timers]
        queue.done(timers)
    assert taken == list(range(1_000))
    assert store.content() == {}
    assert store.ranges < 200


def test_a_fired_timer_that_was_set_again_keeps_its_new_time() -> None:
    store = Store()
    queue = TimerQueue(store)
    queue.set(Timer(b"k", 10))
    [due] = queue.take(10, 5)
    assert queue.get(b"k", "") is None
    assert not queue.cancel(b"k", "")
    queue.set(Timer(b"k", 20))
    queue.done([due])
    assert list(pending(store)) == [Timer(b"k", 20)]
    assert queue.get(b"k", "") == 20
    assert not queue._alone


def test_fired_timers_are_deleted_last_and_replaced_ones_at_once() -> None:
    store = Store()
    queue = TimerQueue(store)
    queue.set(Timer(b"k", 10))
    queue.set(Timer(b"k", 20))
    replaced = [(key, last) for key, value, last in store.log if value is None]
    assert replaced == [(time_key(Timer(b"k", 10)), False)]
    store.log = []
    queue.done(queue.take(20, 5))
    assert store.log == [(time_key(Timer(b"k", 20)), None, True), (index_key(b"k", ""), None, True)]


def test_a_timer_that_was_taken_does_not_come_back_once_it_was_set_again_or_cancelled() -> None:
    """Nor does another one of the key go with it, where the deletion is undone or not."""
    store = Store()
    queue = TimerQueue(store)
    for key in (b"again", b"cancelled"):
        queue.set(Timer(key, 10))
    store.log = []
    due = queue.take(10, 5)
    queue.set(Timer(b"again", 20))
    assert not queue.cancel(b"cancelled", "")
    assert list(pending(store)) == [Timer(b"again", 20)]
    assert [key for key, _, last in store.log if last] == [time_key(timer) for timer in due]
    queue.take_again(due)
    queue.done(due)
    assert list(pending(store)) == [Timer(b"again", 20)]
    assert queue.get(b"again", "") == 20
    assert queue.get(b"cancelled", "") is None


@pytest.mark.parametrize("again_at", [10, 5])
def test_a_timer_that_its_own_call_sets_for_a_past_time_is_due_at_once(again_at: int) -> None:
    store = Store()
    queue = TimerQueue(store)
    queue.set(Timer(b"k", 10))
    due = queue.take(10, 5)
    queue.set(Timer(b"k", again_at))
    queue.done(due)
    assert queue.take(10, 5) == [Timer(b"k", again_at)]


@pytest.mark.parametrize("again_at", [10, 20])
def test_a_timer_that_was_taken_again_is_deleted_though_its_call_had_set_it(again_at: int) -> None:
    store = Store()
    queue = TimerQueue(store)
    queue.set(Timer(b"k", 10))
    before = store.content()
    due = queue.take(10, 5)
    queue.set(Timer(b"k", again_at))
    store.undo(before)
    queue.undo()
    queue.take_again(due)
    queue.done(due)
    assert (store.content(), queue.take(99, 5)) == ({}, [])


def with_an_older_timer() -> Store:
    """Return what a crash may leave, at least once: what comes last had not arrived."""
    first, left = Store(), Store()
    queue = TimerQueue(first)
    queue.set(Timer(b"k", 5))
    queue.take(5, 1)
    queue.set(Timer(b"k", 9))
    left.stores.write({"timers": [(key, value) for key, value, last in first.log if not last]}, {})
    return left


@pytest.mark.parametrize("undone", [False, True])
def test_a_fired_timer_that_a_crash_left_beside_a_newer_one_leaves_that_one_set(undone: bool) -> None:
    store = with_an_older_timer()
    queue = TimerQueue(store)
    assert queue.take(8, 2) == [Timer(b"k", 5)]
    if undone:
        queue.undo()
    queue.done([Timer(b"k", 5)])
    assert queue.get(b"k", "") == 9
    queue.set(Timer(b"k", 12))
    assert list(pending(store)) == [Timer(b"k", 12)]
    queue.done(queue.take(99, 1))
    assert store.content() == {}


def test_a_timer_that_a_crash_left_beside_a_newer_one_may_be_set_again() -> None:
    store = with_an_older_timer()
    queue = TimerQueue(store)
    queue.set(Timer(b"k", 0))
    queue.done(queue.take(0, 1))
    queue.set(Timer(b"k", 5))
    queue.done(queue.take(5, 1))
    assert store.content() == {}


def test_firing_reads_no_single_entry_and_keeps_nothing_of_what_has_fired() -> None:
    store = Store()
    queue = TimerQueue(store)
    queue.take(0, 1)
    for first in (0, 10):
        for number in range(first, first + 10):
            queue.set(Timer(b"%d" % number, number))
        store.reads = 0
        due = queue.take(first + 9, 20)
        assert len(due) == 10
        queue.set(Timer(b"%d" % first, first + 5))
        queue.done(due)
        assert store.reads == 1  # for when the key's timer was set
        queue.undo()  # of nothing
        queue.done(queue.take(first + 9, 20))
        assert not queue._alone
    assert store.content() == {}


@settings(max_examples=examples(100))
@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.data())
def test_a_changelog_that_breaks_off_leaves_one_entry_for_a_key_that_is_set_again(
    times: list[int], data: st.DataObject
) -> None:
    """At least once, a crash may keep only the first writes of a commit; the input is then processed again."""
    store = Store()
    TimerQueue(store).set(Timer(b"k", 9))
    before, store.log = store.content(), []
    queue = TimerQueue(store)
    for at_ms in times:
        queue.set(Timer(b"k", at_ms))
    newest: dict[bytes, bytes | None] = {}
    for key, value, last in store.log:
        assert not last
        newest[key] = value  # as the write buffer: the place of the first write, the newest value
    kept = data.draw(st.integers(0, len(newest)))
    store.undo(before)
    store.stores.write({"timers": list(newest.items())[:kept]}, {})
    TimerQueue(store).set(Timer(b"k", data.draw(st.integers(1, 9))))
    assert len(list(pending(store))) == 1


def test_a_timer_is_due_since_its_time_or_since_it_was_set_for_a_past_one() -> None:
    store = Store()
    queue = TimerQueue(store)
    timers = [Timer(b"a", 5), Timer(b"b", 6), Timer(b"c", 30)]
    for timer in timers:
        queue.set(timer, 20)
    queue.set(timers[1], 6)
    for current in (queue, TimerQueue(store)):
        assert current.take(30, 9) == timers
        assert [current.since_ms(timer) for timer in timers] == [20, 6, 30]
    assert queue.first_ms() == 6, "it was taken and is not done; the one for 5 was set at 20"
    queue.done(timers[:2])
    assert queue.first_ms() == 30
    queue.done(timers[2:])
    assert queue.first_ms() is None


def test_a_timer_for_a_past_time_holds_back_only_what_is_later_than_when_it_was_set() -> None:
    store = Store()
    queue = TimerQueue(store, ahead=2)
    assert (queue.take(0, 9), queue.first_ms()) == ([], None)
    queue.set(Timer(b"a", 0), 50)
    assert queue.first_ms() == 50
    queue.set(Timer(b"b", 70), 60)
    queue.set(Timer(b"c", 40), 60)
    assert queue.first_ms() == 50
    assert queue.cancel(b"a", "")
    assert queue.take(65, 9) == [Timer(b"c", 40)]
    assert queue.first_ms() == 60
    queue.done([Timer(b"c", 40)])
    assert queue.first_ms() == 70


def test_timers_for_past_times_that_were_replaced_leave_nothing_in_memory() -> None:
    queue = TimerQueue(Store())
    queue.take(0, 1)
    for number in range(100):
        queue.set(Timer(b"k", number), 1_000)
        assert queue.due_ms() == number
    assert (len(queue._late), len(queue._front), len(queue._gone)) == (1, 1, 0)


def test_a_timer_that_is_set_again_is_due_since_then() -> None:
    store = Store()
    queue = TimerQueue(store)
    timer = Timer(b"a", 5)
    for now_ms, since_ms in ((20, 20), (25, 25), (3, 5)):
        queue.set(timer, now_ms)
        assert queue.take(30, 9) == [timer]
        assert queue.since_ms(timer) == since_ms
