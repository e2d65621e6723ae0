"""Calls on their own thread: one after another; a call that never returns is left behind."""

from __future__ import annotations

import threading

import pytest

from kstreams_assign.worker.sender import Sender

SOON_S = 60.0


class Failed(Exception):
    """What a call raises."""


def fail() -> None:
    raise Failed


class Hanging:
    """A call that does not return until the test releases it."""

    def __init__(self) -> None:
        self.begun, self.back = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        self.back.wait(100)


def test_calls_come_one_after_another_with_their_results_and_errors() -> None:
    sender, done = Sender("test"), []
    first = sender.submit(lambda: done.append(1))
    second = sender.submit(fail)
    third = sender.submit(lambda: done.append(3))
    assert third.result(SOON_S) is None
    assert (first.result(0), done) == (None, [1, 3])
    with pytest.raises(Failed):
        second.result(0)
    sender.close(SOON_S)


def test_a_call_that_does_not_come_back_holds_up_neither_the_next_one_nor_the_end() -> None:
    sender, hanging, made = Sender("test"), Hanging(), []
    hung = sender.submit(hanging)
    assert hanging.begun.wait(SOON_S)
    behind = sender.submit(lambda: made.append("behind"))
    sender.leave()
    assert sender.submit(lambda: made.append("after")).result(SOON_S) is None
    resubmitted = sender.submit(hanging)
    sender.close(0.1)
    hanging.back.set()
    hung.result(SOON_S)
    resubmitted.result(SOON_S)
    assert not behind.done()
    assert made == ["after"]
