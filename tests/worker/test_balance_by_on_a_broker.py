"""``balance_by = "input_rate"`` on a real broker: the partition with most of the records gets a process of its own."""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from uuid import UUID

import pytest

from kstreams_assign import Assignment, CommitDue, Config, GroupMember, SubtopologyShape, TaskId, allowed_values
from kstreams_assign.adapters.confluent import RecordProducer
from kstreams_assign.allowed_values import Range
from kstreams_assign.events import AssignedEvent, DecisionEvent, JoiningEvent
from kstreams_assign.worker import load_meter
from tests.docs_site.pages import blocks
from tests.worker.app import PARTITIONS, App, Running, until

HEAVY, OTHERS = "0_0", {"0_1", "0_2", "0_3"}
TICK_S = 0.1


@pytest.fixture(autouse=True)
def _measured_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure over seconds and ask after seconds; both take minutes otherwise."""
    monkeypatch.setattr(load_meter, "SAMPLE_EVERY_MS", 500)
    monkeypatch.setattr(load_meter, "WINDOW_MS", 6_000)
    monkeypatch.setattr(load_meter, "MEASURED_AFTER_MS", 3_000)
    monkeypatch.setattr(allowed_values, "RANGES", {**allowed_values.RANGES})
    monkeypatch.setitem(allowed_values.RANGES, "probing_rebalance_interval_ms", Range(1_000))


@contextmanager
def traffic(app: App, records_a_tick: dict[int, int]) -> Iterator[None]:
    """Send to each partition, evenly, until the block ends."""
    ended = threading.Event()

    def send() -> None:
        with closing(RecordProducer(app.broker, delivery_timeout_ms=60_000)) as producer:
            while not ended.wait(TICK_S):
                for partition, count in records_a_tick.items():
                    for number in range(count):
                        producer.produce(app.name, partition, b"key-%d" % (number % 7), b"x")
                producer.flush(60)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def settings_of_the_page() -> dict[str, str]:
    """Return the settings of ``docs/how-to/balance-by-load.md`` without names that a test has of its own."""
    (block,) = [block for block in blocks("docs/how-to/balance-by-load.md") if block.verb == "run by"]
    settings = tomllib.loads(block.text)
    assert settings.pop("application_id")
    assert settings.pop("bootstrap_servers")
    assert settings == {"balance_by": "input_rate"}
    return settings


def owned(worker: Running) -> set[str]:
    assigned = worker.reported(AssignedEvent)
    return set(assigned[-1].active) if assigned else set()


def decisions(workers: Sequence[Running]) -> list[DecisionEvent]:
    made = [event for worker in workers for event in worker.reported(DecisionEvent)]
    return sorted(made, key=lambda event: event.time_ms)


def test_the_loaded_task_gets_a_process_of_its_own_and_keeps_it(app: App) -> None:
    settings = {
        **settings_of_the_page(),
        "probing_rebalance_interval_ms": 3_000,
        "early_probing_floor_ms": 1_000,
    }
    with traffic(app, {0: 40, 1: 2, 2: 2, 3: 2}):
        workers = [app.start(1, **settings), app.start(2, **settings)]
        until(lambda: sorted(len(owned(worker)) for worker in workers) == [PARTITIONS // 2] * 2)
        until(lambda: sorted(map(owned, workers), key=len) == [{HEAVY}, OTHERS])
        asked = [event.reason for worker in workers for event in worker.reported(JoiningEvent)]
        assert [reason for reason in asked if reason.startswith("balance_by = input_rate: the load of")]

        so_far = len(decisions(workers))
        for more in range(1, 4):  # whatever is measured meanwhile
            workers[0].worker.rejoin(f"look again, {more}")
            until(lambda more=more: len(decisions(workers)) >= so_far + more)
        later = decisions(workers)[so_far:]
        assert [decision.changed for decision in later if decision.changed] == []
        assert sorted(map(owned, workers), key=len) == [{HEAVY}, OTHERS]
        assert not [warning for decision in decisions(workers) for warning in decision.warnings]


class OwnLoop:
    """A program with a loop of its own that reports what it has measured, and answers the group at once."""

    def __init__(self, app: App, number: int, loads: dict[TaskId, int]) -> None:
        settings = {"balance_by": "state_size", "probing_rebalance_interval_ms": 2_000}
        config = Config(app.name, app.broker, **settings)
        topology = [SubtopologyShape((app.name,))]
        self.active: set[TaskId] = set()
        self._loads = loads
        self._ended = threading.Event()
        self._member = GroupMember(config, topology, UUID(int=number))
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self._member as member:
            while not self._ended.is_set():
                match member.poll(0.1):
                    case CommitDue():
                        member.ready_to_join()
                    case Assignment() as assignment:
                        self.active = set(assignment.active)
                        for task in self.active:
                            member.report_load(task, self._loads[task])
                        member.let_go()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()


def test_a_loop_of_its_own_reports_loads(app: App) -> None:
    tasks = [TaskId(0, partition) for partition in range(PARTITIONS)]
    loads = {**dict.fromkeys(tasks, 5 << 30), tasks[0]: 80 << 30}
    loops = [OwnLoop(app, number, loads) for number in (1, 2)]
    try:
        until(lambda: sorted(len(loop.active) for loop in loops) == [1, 3])
        assert min((loop.active for loop in loops), key=len) == {tasks[0]}
    finally:
        for loop in loops:
            loop.stop()
