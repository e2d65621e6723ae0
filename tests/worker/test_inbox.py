"""Orders to a thread: all in their order, and an end to them although other threads go on ordering."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from kstreams_assign.worker.inbox import Inbox


def test_orders_are_carried_out_in_order_with_those_that_they_give() -> None:
    inbox, story = Inbox(), list[str]()

    def first() -> None:
        story.append("first")
        inbox.put(its_own)

    def its_own() -> None:
        story.append("its own")
        inbox.put(lambda: story.append("its own of it"))

    inbox.carry_out()
    inbox.put(first)
    inbox.put(lambda: story.append("second"))
    inbox.carry_out()
    assert story == ["first", "second", "its own", "its own of it"]
    assert inbox.empty


def test_what_another_thread_orders_meanwhile_waits_for_the_next_time() -> None:
    inbox, done = Inbox(), list[int]()

    def ordered_by_another(number: int) -> None:
        assert len(done) < 100, "it never ends"
        done.append(number)
        other = threading.Thread(target=inbox.put, args=(lambda: ordered_by_another(number + 1),))
        other.start()
        other.join()

    inbox.put(lambda: ordered_by_another(0))
    inbox.put(lambda: done.append(-1))
    for expected in ([0, -1], [0, -1, 1], [0, -1, 1, 2]):
        inbox.carry_out()
        assert done == expected
    inbox.put(lambda: inbox.put(lambda: done.append(-2)))  # behind what the other thread has ordered until then
    inbox.carry_out()
    assert done == [0, -1, 1, 2, 3, 4, -2]


def test_an_order_that_fails_leaves_the_others() -> None:
    inbox, done = Inbox(), list[int]()

    def fail() -> None:
        inbox.put(lambda: done.append(2))
        raise ValueError

    inbox.carry_out()
    inbox.put(fail)
    inbox.put(lambda: done.append(1))
    with pytest.raises(ValueError):  # noqa: PT011
        inbox.carry_out()
    inbox.settle()
    assert done == [1, 2]
    assert inbox.empty


def test_an_order_that_meets_the_close_is_carried_out_and_no_later_one_is_taken() -> None:
    inbox, entered, go_on = Inbox(), threading.Event(), threading.Event()
    taken: list[bool] = []
    done: list[str] = []
    orders = inbox._orders

    def put(order: object) -> None:
        entered.set()
        assert go_on.wait(60)
        orders.put(order)  # type: ignore[arg-type]

    slow: Any = SimpleNamespace(put=put, get_nowait=orders.get_nowait, empty=orders.empty)
    inbox._orders = slow
    putting = threading.Thread(target=lambda: taken.append(inbox.put(lambda: done.append("first"))))
    closing = threading.Thread(target=inbox.close)
    putting.start()
    assert entered.wait(60)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive(), "it waits for the order"
    go_on.set()
    putting.join(60)
    closing.join(60)
    assert (taken, done) == ([True], ["first"])
    assert not inbox.put(lambda: done.append("late"))
    assert (inbox.empty, done) == (True, ["first"])


def test_the_first_order_is_waited_for() -> None:
    inbox, done = Inbox(), threading.Event()
    inbox.carry_out(0.01)
    other = threading.Timer(0.05, inbox.put, (done.set,))
    other.start()
    inbox.carry_out(60.0)
    other.join()
    assert done.is_set()
