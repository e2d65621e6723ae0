"""One process's tasks over its threads. Equality with Java is tested in test_golden; here is what it means."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.assign import distribute
from kstreams_assign.model import TaskId

TASKS = [TaskId(subtopology, partition) for subtopology in range(3) for partition in range(4)]


def test_tasks_with_state_stay_on_the_thread_that_had_them():
    had = {"a": [TaskId(0, 1), TaskId(0, 2)], "b": [TaskId(0, 0), TaskId(0, 3)]}
    dealt = distribute([TaskId(0, p) for p in range(4)], [], [], ["b", "a"], had)
    assert {name: sorted(tasks.stateful_active) for name, tasks in dealt.items()} == had


def test_a_thread_keeps_its_warmest_tasks_when_it_must_give_some_away():
    dealt = distribute(TASKS[:4], [], [], ["a", "b"], {"a": [TASKS[3], TASKS[2], TASKS[1], TASKS[0]]})
    assert dealt["a"].active == [TASKS[3], TASKS[2]]


def test_consumers_are_dealt_to_in_the_order_of_java_strings():
    """Above U+FFFF Java compares surrogates, so this one comes before U+FFFD."""
    dealt = distribute(TASKS[:1], [], [], ["\ufffd", "\U0001f600"], {})
    assert list(dealt) == ["\U0001f600", "\ufffd"]
    assert dealt["\ufffd"].active == TASKS[:1] or dealt["\U0001f600"].active == TASKS[:1]


@given(data=st.data(), consumers=st.sets(st.text("abc", min_size=1), min_size=1, max_size=5))
def test_every_task_goes_to_one_thread_and_threads_are_even(data, consumers):
    shuffled = data.draw(st.permutations(TASKS))
    first, second, third = sorted(data.draw(st.tuples(*[st.integers(0, len(TASKS))] * 3)))
    active, standby, stateless = shuffled[:first], shuffled[first:second], shuffled[second:third]
    had = {name: data.draw(st.lists(st.sampled_from(TASKS), unique=True)) for name in consumers}
    dealt = distribute(active, standby, stateless, consumers, had)
    assert sorted(task for got in dealt.values() for task in got.stateful_active) == sorted(active)
    assert sorted(task for got in dealt.values() for task in got.standby) == sorted(standby)
    assert sorted(task for got in dealt.values() for task in got.stateless_active) == sorted(stateless)
    counts = [len(got.active) + len(got.standby) for got in dealt.values()]
    assert max(counts) - min(counts) <= 1
