"""How a case is judged: missing inputs, balanced groups, seats taken in turn."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from threading import Barrier, Thread

import pytest

from tests.mixed.matrix import Seats
from tests.mixed.stage import balanced, short_of


def test_inputs_are_missing_where_a_total_is_smaller_even_if_others_are_larger() -> None:
    sent = Counter({b"word": 3, b"id-1": 1, b"id-2": 1})
    assert short_of(sent, {b"word": 3, b"id-1": 1, b"id-2": 1}) == 0
    assert short_of(sent, {b"word": 9, b"id-1": 1}) == 1
    assert short_of(sent, {b"word": 1, b"id-1": 1, b"id-2": 2}) == 2


@dataclass
class Instance:
    active: list[str] = field(default_factory=list)
    standby: list[str] = field(default_factory=list)
    running: bool = True


@pytest.mark.parametrize(
    ("apps", "is_so"),
    [
        ([Instance(["0_0", "0_1"], ["0_2"]), Instance(["0_2"], ["0_0", "0_1"])], True),
        ([Instance(["0_0", "0_1"], ["0_2"]), Instance(["0_2"], ["0_0", "0_1"], running=False)], False),
        ([Instance(["0_0", "0_1", "0_2"], []), Instance([], ["0_0", "0_1", "0_2"])], False),
        ([Instance(["0_0", "0_1"], []), Instance(["0_2"], ["0_0", "0_1"])], False),
        ([Instance(["0_0", "0_1", "0_2"], [])], True),
        ([Instance(["0_0", "0_1"], [])], False),
    ],
    ids=["even", "one-restores", "one-has-all", "a-copy-is-missing", "alone", "a-task-is-missing"],
)
def test_a_group_is_balanced_when_every_task_and_replica_is_present_and_spread(apps, is_so: bool) -> None:
    assert balanced(apps, tasks=3, standbys=1) is is_so


def test_a_request_for_two_seats_is_not_overtaken() -> None:
    seats, taken, gate = Seats(2), [], Barrier(2, timeout=60)

    def take(count: int) -> None:
        with seats.taken(count):
            taken.append(count)

    def hold() -> None:
        with seats.taken(1):
            gate.wait()
            gate.wait()

    threads = [Thread(target=hold), Thread(target=take, args=(2,)), Thread(target=take, args=(1,))]
    threads[0].start()
    gate.wait()
    for waiting, thread in enumerate(threads[1:], start=1):
        thread.start()
        while len(seats._queue) < waiting and thread.is_alive():
            thread.join(0.01)
    gate.wait()
    for thread in threads:
        thread.join(60)
    assert taken == [2, 1]
