"""Ends of changelogs are read after they were asked for, and together."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.model import TopicPartition
from kstreams_assign.worker.fresh_ends import FreshEnds
from tests.worker.app import until

FIRST, *OTHERS = [TopicPartition("log", number) for number in range(4)]


def test_who_asks_during_a_request_shares_the_next_one():
    began, go = threading.Event(), threading.Event()
    asked: list[set[TopicPartition]] = []

    def look(partitions):
        asked.append(set(partitions))
        began.set()
        assert go.wait(30)
        return dict.fromkeys(partitions, len(asked))

    ends = FreshEnds(look)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(ends.ask, FIRST, 30)
        assert began.wait(30)
        later = [pool.submit(ends.ask, each, 30) for each in OTHERS]
        pause = threading.Event()
        while ends._next is None or len(ends._next.partitions) < len(OTHERS):
            pause.wait(0.001)
        go.set()
        assert [first.result(30), *(each.result(30) for each in later)] == [1, 2, 2, 2]
    assert asked == [{FIRST}, set(OTHERS)]
    ends.close()


def test_a_close_fails_those_that_wait_for_the_next_request_and_lets_the_one_under_way_end():
    began, go = threading.Event(), threading.Event()

    def look(partitions):
        began.set()
        assert go.wait(30)
        return dict.fromkeys(partitions, 7)

    ends = FreshEnds(look)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ends.ask, FIRST, 10)
        assert began.wait(30)
        waiting = pool.submit(ends.ask, OTHERS[0], 10)
        until(lambda: ends._next is not None)
        ends.close()
        with pytest.raises(BrokerUnavailable, match="ending"):
            waiting.result(30)
        go.set()
        assert first.result(30) == 7
    with pytest.raises(BrokerUnavailable, match="ending"):
        ends.ask(FIRST, 10)


def test_a_later_question_is_answered_with_a_later_look_also_after_an_error():
    answers = iter([10, BrokerUnavailable("no broker"), 12])

    def look(partitions):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return dict.fromkeys(partitions, answer)

    ends = FreshEnds(look)
    assert ends.ask(FIRST, 30) == 10
    with pytest.raises(BrokerUnavailable):
        ends.ask(FIRST, 30)
    assert ends.ask(FIRST, 30) == 12
    ends.close()
