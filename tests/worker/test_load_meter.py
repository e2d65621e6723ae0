"""What a worker measures for ``balance_by``: the rate at which records arrive, and the bytes on disk."""

from __future__ import annotations

import pytest

from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.worker import load_meter
from kstreams_assign.worker.input_progress import InputProgress
from kstreams_assign.worker.load_meter import WINDOW_MS, InputRates, LoadMeter, measure_sizes

FIRST, SECOND = TaskId(0, 0), TaskId(0, 1)
ORDERS, CLICKS, OTHER = TopicPartition("orders", 0), TopicPartition("clicks", 0), TopicPartition("orders", 1)


def at(task: TaskId, end: int) -> InputProgress:
    return InputProgress(task, 0, end, 0)


def test_the_rate_is_that_of_arrival_over_all_partitions_of_a_task():
    rates = InputRates()
    for second in range(0, 125, 5):
        progress = {ORDERS: at(FIRST, 1000 + 10 * second), CLICKS: at(FIRST, second), OTHER: at(SECOND, 7)}
        rates.add(progress, second * 1000)
    assert rates.by_task(progress) == {FIRST: 660, SECOND: 0}, "nothing of it is processed yet"


def test_a_task_has_no_rate_before_a_minute_nor_with_a_partition_that_is_new():
    rates = InputRates()
    rates.add({ORDERS: at(FIRST, 0)}, 0)
    rates.add({ORDERS: at(FIRST, 590)}, 59_000)
    assert rates.by_task({ORDERS: at(FIRST, 590)}) == {}
    both = {ORDERS: at(FIRST, 600), CLICKS: at(FIRST, 0)}
    rates.add(both, 60_000)
    assert rates.by_task(both) == {}
    assert rates.by_task({ORDERS: at(FIRST, 600)}) == {FIRST: 600}


def test_the_rate_forgets_what_is_older_than_the_window():
    rates = InputRates()
    end = 0
    for second in range(0, 1200, 5):
        end += 50_000 if second < 600 else 5
        rates.add({ORDERS: at(FIRST, end)}, second * 1000)
    assert rates.by_task({ORDERS: at(FIRST, end)}) == {FIRST: 60}
    assert len(rates._samples[ORDERS]) <= WINDOW_MS // 5000 + 2


def test_a_topic_that_is_created_again_or_a_task_that_left_is_measured_from_its_beginning():
    rates = InputRates()
    for second, end in ((0, 5000), (60, 6000), (120, 10), (150, 60)):
        rates.add({ORDERS: at(FIRST, end)}, second * 1000)
    assert rates.by_task({ORDERS: at(FIRST, 60)}) == {}
    rates.add({}, 160_000)
    rates.add({ORDERS: at(FIRST, 100)}, 230_000)
    assert rates.by_task({ORDERS: at(FIRST, 100)}) == {}


def test_a_task_with_stores_on_disk_has_no_size_before_it_is_measured():
    shape = TopologyShape(
        (
            SubtopologyShape(("orders",), (Store("totals"),)),
            SubtopologyShape(("clicks",), ()),
            SubtopologyShape(("views",), (Store("seen", in_memory=True),)),
        )
    )
    tasks = [TaskId(0, 0), TaskId(0, 1), TaskId(1, 0), TaskId(2, 0)]
    progress = {TopicPartition("any", number): at(task, 0) for number, task in enumerate(tasks)}
    sizes = {TaskId(0, 0): 5000, TaskId(0, 3): 9}
    assert measure_sizes(progress, sizes, shape) == {TaskId(0, 0): 5000, TaskId(1, 0): 0, TaskId(2, 0): 0}


@pytest.mark.parametrize(
    ("balance_by", "loads"), [("tasks", {}), ("input_rate", {FIRST: 120}), ("state_size", {FIRST: 77})]
)
def test_the_meter_measures_what_the_setting_asks_for(monkeypatch: pytest.MonkeyPatch, balance_by, loads):
    now_ms, ends = [0], [0]
    monkeypatch.setattr(load_meter, "monotonic_ms", lambda: now_ms[0])
    shape = TopologyShape((SubtopologyShape(("orders",), (Store("totals"),)),))
    meter = LoadMeter(balance_by, shape, lambda: {ORDERS: at(FIRST, ends[0])}, lambda: {FIRST: 77})
    for _ in range(20):
        meter.turn()
        now_ms[0] += 5_000
        ends[0] += 10
    assert meter.loads == loads
