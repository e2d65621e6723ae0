"""A task with several inputs waits for each, for a while; what waits is bounded, and forgotten if a partition moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest

from kstreams_assign.errors import OffsetOutOfRange
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.record import Record
from kstreams_assign.worker.polled_inputs import POLL_GAP_MS, WAIT_MS, WAITING_RECORDS_MAX, PolledInputs

LEFT, RIGHT, ALONE = (TopicPartition(topic, 0) for topic in ("left", "right", "alone"))
POLL_RECORDS_MAX = 100
WAITING_BYTES_MAX = 1_000_000


def records(partition: TopicPartition, *times_ms: int) -> list[Record]:
    return [Record(*partition, number, at_ms, b"k", b"v") for number, at_ms in enumerate(times_ms)]


class Client:
    """A client whose next poll and ends a test sets."""

    def __init__(self) -> None:
        self.arrived: dict[TopicPartition, Sequence[Record]] = {}
        self.at_end: set[TopicPartition] = set()
        self.read: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.lost: dict[TopicPartition, int] = {}
        self.now_ms = 0
        self.inputs = PolledInputs(self, POLL_RECORDS_MAX, WAITING_BYTES_MAX, lambda: self.now_ms)
        self.inputs.order([LEFT, RIGHT])
        self.inputs.order([ALONE])
        self.inputs.add({LEFT: 0, RIGHT: 0, ALONE: 0})

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        self.read.update(positions)
        self.paused -= positions.keys()

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self.read.pop(partition, None)
            self.paused.discard(partition)

    def poll(self, max_records: int, timeout_s: float) -> Mapping[TopicPartition, Sequence[Record]]:  # noqa: ARG002
        if self.lost and not self.arrived:
            lost, self.lost = self.lost, {}
            raise OffsetOutOfRange("gone", lost)
        arrived, self.arrived = self.arrived, {}
        assert not self.paused & arrived.keys()
        return arrived

    def ends(self) -> Mapping[TopicPartition, int]:
        return {}

    def is_at_end(self, partition: TopicPartition) -> bool:
        return partition in self.at_end

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self.paused.update(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self.paused.difference_update(partitions)

    def polled(self, arrived: Mapping[TopicPartition, Sequence[Record]] | None = None) -> list[tuple[str, list[int]]]:
        """Poll, and return topics and times of what may be worked on."""
        self.arrived = {**(arrived or {})}
        runs = self.inputs.poll(POLL_RECORDS_MAX, 0)
        return [
            (run.partition.topic, [record.timestamp_ms for record in run.records])
            for run in runs
            if self.inputs.reads_on(run.partition)
        ]

    def wait(self, span_ms: int) -> list[tuple[str, list[int]]]:
        """Poll all the time, although nothing arrives; return what may be worked on."""
        runs = []
        until_ms = self.now_ms + span_ms
        while self.now_ms < until_ms:
            self.now_ms = min(until_ms, self.now_ms + POLL_GAP_MS)
            runs += self.polled()
        return runs


def test_only_a_task_with_several_inputs_waits() -> None:
    client = Client()
    assert client.polled({LEFT: records(LEFT, 5), ALONE: records(ALONE, 9)}) == [("alone", [9])]
    assert client.polled({RIGHT: records(RIGHT, 3)}) == [("right", [3])]
    client.at_end.add(RIGHT)
    assert client.polled() == [("left", [5])]


def test_a_partition_that_brings_nothing_is_waited_for_once_until_it_brings_something_again() -> None:
    client = Client()
    assert client.polled({LEFT: records(LEFT, 5)}) == []
    assert client.wait(WAIT_MS - 1) == []
    assert client.polled({LEFT: records(LEFT, 6)}) == []
    assert client.wait(1) == [("left", [5, 6])]
    assert client.polled({LEFT: records(LEFT, 7)}) == [("left", [7])]
    assert client.polled({RIGHT: records(RIGHT, 1), LEFT: records(LEFT, 8)}) == [("right", [1])]
    assert client.wait(WAIT_MS - 1) == []
    assert client.wait(1) == [("left", [8])]


def test_the_wait_for_a_partition_that_has_reached_its_end_begins_again_with_its_next_records() -> None:
    client = Client()
    assert client.polled({LEFT: records(LEFT, 5)}) == []
    assert client.wait(WAIT_MS - 1) == []
    client.at_end.add(RIGHT)
    assert client.polled() == [("left", [5])]
    client.at_end.clear()
    assert client.polled({LEFT: records(LEFT, 6)}) == []
    assert client.wait(WAIT_MS - 1) == []


def test_time_without_a_poll_is_no_wait() -> None:
    """A function of another task may take long, while the records are fetched already."""
    client = Client()
    assert client.polled({LEFT: records(LEFT, 5)}) == []
    client.now_ms += 2 * WAIT_MS
    assert client.polled() == []
    assert client.polled({RIGHT: records(RIGHT, 3)}) == [("right", [3])]


def test_what_was_polled_is_worked_on_before_the_brokers_are_said_to_have_deleted_what_is_next() -> None:
    client = Client()
    assert client.polled({RIGHT: records(RIGHT, 7, 9), ALONE: records(ALONE, 1)}) == [("alone", [1])]
    client.lost = {RIGHT: 2, ALONE: 1}
    with pytest.raises(OffsetOutOfRange, match="gone") as raised:
        client.polled()
    assert raised.value.positions == {ALONE: 1}
    assert client.polled({LEFT: records(LEFT, 6, 8)}) == [("left", [6]), ("right", [7]), ("left", [8])]
    client.at_end.add(LEFT)
    seen: list[int] = []
    runs = client.inputs.poll(POLL_RECORDS_MAX, 0)
    with pytest.raises(OffsetOutOfRange) as raised:
        seen.extend(record.timestamp_ms for run in runs for record in run.records)
    assert (seen, raised.value.positions) == ([9], {RIGHT: 2})
    assert client.polled() == []


def test_a_partition_that_moves_is_not_said_to_be_lost() -> None:
    client = Client()
    client.polled({RIGHT: records(RIGHT, 7)})
    client.lost = {RIGHT: 1}
    assert client.polled() == []
    client.inputs.add({RIGHT: 5})
    assert client.polled() == []
    assert client.polled({LEFT: records(LEFT, 6)}) == [], "it is waited for again"


def test_large_records_that_wait_are_bounded_by_their_bytes() -> None:
    client = Client()
    large = [Record(*LEFT, number, number, None, bytes(WAITING_BYTES_MAX // 8)) for number in range(5)]
    client.polled({LEFT: large[:4]})
    assert client.paused == {LEFT}, "half of the bytes are for each of the two"
    client.at_end.add(RIGHT)
    assert client.polled() == [("left", [0, 1, 2, 3])]
    assert client.paused == set()


def test_a_partition_that_is_far_ahead_is_not_fetched_until_half_of_what_waits_is_done() -> None:
    client = Client()
    most = WAITING_RECORDS_MAX // 2
    assert client.polled({LEFT: records(LEFT, *range(most - 1))}) == []
    assert client.paused == set()
    assert client.polled({LEFT: records(LEFT, most)}) == []
    assert client.paused == {LEFT}
    assert client.polled({RIGHT: records(RIGHT, most // 2 - 1)}) == [
        ("left", [*range(most // 2)]),
        ("right", [most // 2 - 1]),
    ]
    assert client.paused == {LEFT}, "half of it waits"
    client.polled({RIGHT: records(RIGHT, most // 2)})
    assert client.paused == set()


def test_what_has_moved_is_forgotten_and_fetched_again() -> None:
    client = Client()
    client.polled({LEFT: records(LEFT, *range(WAITING_RECORDS_MAX))})
    assert client.paused == {LEFT}
    client.inputs.add({LEFT: 3})
    assert client.paused == set()
    client.at_end.add(RIGHT)
    assert client.polled() == []
    assert client.polled({LEFT: records(LEFT, 3)}) == [("left", [3])]
    client.at_end.clear()
    client.polled({LEFT: records(LEFT, 4)})
    client.inputs.remove([LEFT, RIGHT])
    client.inputs.remove_order([LEFT, RIGHT])
    assert client.polled({LEFT: records(LEFT, 4)}) == [("left", [4])], "the loop knows whose it is"


def test_what_was_polled_of_a_partition_that_moves_meanwhile_does_not_wait() -> None:
    client = Client()
    client.at_end = {LEFT, RIGHT}
    client.arrived = {ALONE: records(ALONE, 1), LEFT: records(LEFT, 2)}
    runs = client.inputs.poll(POLL_RECORDS_MAX, 0)
    assert next(runs).partition == ALONE
    client.inputs.add({LEFT: 0})
    assert list(runs) == []
