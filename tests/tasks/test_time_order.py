"""Records of several partitions come in the order of time, whatever arrives when: compared with picking one by one."""

from __future__ import annotations

from random import Random

import pytest

from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.record import Record
from kstreams_assign.tasks.time_order import TimeOrder
from tests.samples import sample

LEFT, RIGHT, THIRD = (TopicPartition(topic, 0) for topic in ("left", "right", "third"))


def records(partition: TopicPartition, *times_ms: int, first: int = 0) -> list[Record]:
    return [Record(*partition, first + number, at_ms, b"k", b"v") for number, at_ms in enumerate(times_ms)]


def taken(order: TimeOrder, *at_end: TopicPartition) -> list[tuple[str, list[int]]]:
    """Take all that may be taken: topics and times of the runs."""
    runs = []
    while (run := order.next_run(lambda partition: partition in at_end)) is not None:
        assert {(record.topic, record.partition) for record in run.records} == {run.partition}
        runs.append((run.partition.topic, [record.timestamp_ms for record in run.records]))
    return runs


def test_the_oldest_head_comes_first_with_all_behind_it_that_are_not_younger_than_the_next() -> None:
    order = TimeOrder([RIGHT, LEFT])
    order.add(LEFT, records(LEFT, 1, 2, 5, 9))
    order.add(RIGHT, records(RIGHT, 3, 4, 9))
    assert taken(order, LEFT, RIGHT) == [("left", [1, 2]), ("right", [3, 4]), ("left", [5, 9]), ("right", [9])]


def test_of_the_same_time_the_partition_that_sorts_first_has_the_first() -> None:
    order = TimeOrder([RIGHT, LEFT])
    order.add(RIGHT, records(RIGHT, 7, 7))
    order.add(LEFT, records(LEFT, 7, 7))
    assert taken(order, LEFT, RIGHT) == [("left", [7, 7]), ("right", [7, 7])]


def test_a_head_that_is_younger_than_what_is_behind_it_holds_it_up() -> None:
    order = TimeOrder([LEFT, RIGHT])
    order.add(LEFT, records(LEFT, 8, 1))
    order.add(RIGHT, records(RIGHT, 5, 6))
    assert taken(order, LEFT, RIGHT) == [("right", [5, 6]), ("left", [8, 1])]


def test_records_wait_for_a_partition_that_may_bring_older_ones() -> None:
    order = TimeOrder([LEFT, RIGHT])
    order.add(LEFT, records(LEFT, 5, 6))
    assert taken(order) == []
    assert order.waiting(LEFT) == 2
    order.add(RIGHT, records(RIGHT, 4))
    assert taken(order) == [("right", [4])]
    assert taken(order, RIGHT) == [("left", [5, 6])]
    assert order.waiting(LEFT) == 0


def test_a_partition_that_is_read_from_elsewhere_loses_what_waits() -> None:
    order = TimeOrder([LEFT, RIGHT])
    order.add(LEFT, records(LEFT, 5, 6))
    order.add(RIGHT, records(RIGHT, 7))
    order.drop(LEFT)
    assert taken(order) == []
    order.add(LEFT, records(LEFT, 6, first=1))
    assert taken(order, LEFT) == [("left", [6]), ("right", [7])]


@pytest.mark.parametrize("seed", sample(range(300), 60))
def test_runs_are_what_picking_one_record_after_the_other_gives(seed: int) -> None:
    chance = Random(seed)
    partitions = [LEFT, RIGHT, THIRD][: chance.randint(2, 3)]
    whole = {
        partition: records(partition, *(chance.randint(0, 30) for _ in range(chance.randint(0, 25))))
        for partition in partitions
    }
    order, arrived = TimeOrder(partitions), dict.fromkeys(partitions, 0)
    waiting: dict[TopicPartition, list[Record]] = {partition: [] for partition in partitions}
    done: list[Record] = []
    expected: list[Record] = []
    while any(arrived[partition] < len(whole[partition]) for partition in partitions) or any(waiting.values()):
        for partition in partitions:
            some = whole[partition][arrived[partition] : arrived[partition] + chance.randint(0, 6)]
            arrived[partition] += len(some)
            waiting[partition] += some
            if some:
                order.add(partition, some)
        ended = [partition for partition in partitions if arrived[partition] == len(whole[partition])]
        while any(waiting.values()) and all(waiting[partition] or partition in ended for partition in partitions):
            heads = [queue[0] for queue in waiting.values() if queue]
            oldest = min(heads, key=lambda record: (record.timestamp_ms, record.topic))
            expected.append(waiting[TopicPartition(oldest.topic, oldest.partition)].pop(0))
        while (run := order.next_run(ended.__contains__)) is not None:
            done += run.records
        assert done == expected
    assert len(done) == sum(map(len, whole.values()))
