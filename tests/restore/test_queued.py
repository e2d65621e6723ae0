"""``Restorer.queued`` names the warm-ups that wait for their turn: exactly those of the queue that are not read."""

from __future__ import annotations

from dataclasses import replace

from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.restore.loop import Purpose, Restorer
from tests.restore.logs import P0, P1, PACING, Q0, T0, T1, DictStores, Log, LogReader, records, restorer, steps

ACTIVE = TaskId(1, 0)


def test_the_queued_tasks_are_those_of_the_queue_that_are_not_read():
    ours = {TaskId(0, n): TopicPartition("app-s-changelog", n) for n in range(4)}
    order = [TaskId(0, 2), TaskId(0, 0), TaskId(0, 3)]
    reader = LogReader({partition: Log(entries=records(10)) for partition in ours.values()})
    loop = Restorer(reader, now_ms=lambda: reader.now_ms, pacing=replace(PACING, caught_up=2))
    loop.queue(order, at_once=1)
    for task, partition in ours.items():
        loop.add(task, DictStores(), {partition: "s"}, Purpose.STANDBY)
    seen = []
    while not seen or seen[-1]:
        loop.step(0.1)
        assert loop.queued == {task for task in order if ours[task] not in reader.positions}
        if loop.queued not in seen:
            seen.append(loop.queued)
    assert seen == [{order[1], order[2]}, {order[2]}, set()]


def test_a_task_behind_one_that_does_not_get_on_is_queued_for_a_moment_only():
    reader = LogReader({P0: Log(entries=records(40), held_back=40), P1: Log(entries=records(10))})
    loop = restorer(reader)
    loop.queue([T0, T1], at_once=1)
    for task, partition in ((T0, P0), (T1, P1)):
        loop.add(task, DictStores(), {partition: "s"}, Purpose.STANDBY)
    began_ms = reader.now_ms
    while reader.now_ms - began_ms < PACING.stalled_ms:
        loop.step(0.1)
        assert loop.queued == {T1}
    steps(loop)
    assert loop.queued == set()


def test_the_whole_queue_waits_while_active_tasks_come_first_and_nothing_waits_without_a_queue():
    reader = LogReader({P0: Log(entries=records(10)), P1: Log(entries=records(10)), Q0: Log(entries=records(400))})
    loop = restorer(reader)
    loop.queue([T0, T1], at_once=1)
    for task, partition in ((T0, P0), (T1, P1)):
        loop.add(task, DictStores(), {partition: "s"}, Purpose.STANDBY)
    loop.add(ACTIVE, DictStores(), {Q0: "q"}, Purpose.ACTIVE)
    loop.step(0.1)
    assert (loop.queued, set(reader.positions)) == ({T0, T1}, {Q0})
    loop.remove(ACTIVE)
    loop.step(0.1)
    assert (loop.queued, set(reader.positions)) == ({T1}, {P0})
    loop.queue([], at_once=0)
    loop.step(0.1)
    assert (loop.queued, set(reader.positions)) == (set(), {P0, P1})


def test_a_task_that_is_removed_is_not_queued():
    reader = LogReader({P0: Log(entries=records(10)), P1: Log(entries=records(10))})
    loop = restorer(reader)
    loop.queue([T0, T1], at_once=1)
    for task, partition in ((T0, P0), (T1, P1)):
        loop.add(task, DictStores(), {partition: "s"}, Purpose.STANDBY)
    loop.step(0.1)
    assert loop.queued == {T1}
    loop.remove(T1)
    loop.step(0.1)
    assert loop.queued == set()
