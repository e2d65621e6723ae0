"""Workers that close for a restart, on a real broker: their tasks wait for them, and are back where they were."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from kafka.coordinator.consumer import ConsumerCoordinator

from kstreams_assign.events import AssignedEvent, ClosedEvent, DecisionEvent, RestartAnnouncedEvent, RunningEvent
from kstreams_assign.restore import progress
from tests.worker.app import PARTITIONS, App, Running

WORDS = [b"word-%d" % (n % 97) for n in range(2_000)]
SETTINGS = {"acceptable_recovery_lag": 0, "early_probing_floor_ms": 1_000}


def start_two(app: App, settings: Mapping[str, Any]) -> list[Running]:
    """Return two workers that have counted all words."""
    app.send(WORDS)
    workers = [app.start(number, **settings) for number in (1, 2)]
    for process in workers:
        process.until_event(RunningEvent)
    app.until_counted()
    return workers


def active(process) -> tuple[str, ...]:
    return process.reported(AssignedEvent)[-1].active


def test_in_a_rolling_restart_no_task_moves_and_none_is_restored(broker: str, tmp_path: Path) -> None:
    app = App(broker, "rolling", tmp_path)
    try:
        app.send(WORDS)
        workers = {number: app.start(number, **SETTINGS) for number in (1, 2)}
        for process in workers.values():
            process.until_event(RunningEvent)
        app.until_counted()
        workers[1].until(lambda _: len(active(workers[1]) + active(workers[2])) == PARTITIONS)
        for process in workers.values():
            process.until(lambda _, process=process: len(process.reported(RunningEvent)) >= len(active(process)) > 0)
        before = {number: active(process) for number, process in workers.items()}
        for number, other in ((1, 2), (2, 1)):
            seen = len(workers[other].reported(AssignedEvent))
            workers[number].worker.close(restart=True)
            workers[number].until_event(ClosedEvent)
            assert [event.awaited for event in workers[number].reported(RestartAnnouncedEvent)] == [True]
            led = workers[other]
            led.until(lambda _, led=led: any(event.waiting for event in led.reported(DecisionEvent)))
            workers[number] = app.start(number, **SETTINGS)
            back = workers[number]
            back.until(lambda _, back=back, had=before[number]: len(back.reported(RunningEvent)) == len(had))
            assert active(back) == before[number]
            assert {event.restored for event in back.reported(RunningEvent)} == {0}
            since = workers[other].reported(AssignedEvent)[seen:]
            assert {event.active for event in since} == {before[other]}, "it got no task of the other"
        app.send(WORDS)
        app.until_counted()
    finally:
        app.stop()


def test_a_leader_that_restarts_is_awaited_although_another_member_is_slow(
    broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SyncGroup of the other leaves half a second late: a leader that was gone by then would have left no word."""
    app = App(broker, "slow-member", tmp_path)
    left, slow = threading.Event(), False
    read = ConsumerCoordinator._process_join_group_response

    def read_slowly(coordinator: ConsumerCoordinator, response: Any, send_time: float) -> Any:
        answer = read(coordinator, response, send_time)
        if slow and answer.leader != answer.member_id:
            left.wait(0.5)
        return answer

    monkeypatch.setattr(ConsumerCoordinator, "_process_join_group_response", read_slowly)
    try:
        workers = start_two(app, SETTINGS)
        first, second = sorted(workers, key=lambda process: -len(process.reported(DecisionEvent)))
        second.until(lambda _: len(active(first)) == len(active(second)) == PARTITIONS // 2)
        slow = True
        first.worker.close(restart=True)
        first.until_event(ClosedEvent)
        left.set()
        second.until_event(DecisionEvent)
        assert [event.awaited for event in first.reported(RestartAnnouncedEvent)] == [True]
        assert second.reported(DecisionEvent)[0].waiting
    finally:
        app.stop()


def test_a_process_that_does_not_come_back_is_awaited_only_so_long(broker: str, tmp_path: Path) -> None:
    app = App(broker, "not-back", tmp_path)
    settings = {**SETTINGS, "scheduled_rebalance_max_delay_ms": 3_000}
    try:
        first, second = start_two(app, settings)
        first.worker.close(restart=True)
        first.until_event(ClosedEvent)
        second.until(lambda _: len(active(second)) == PARTITIONS)
        decisions = second.reported(DecisionEvent)
        assert any(event.waiting for event in decisions)
        app.send(WORDS)
        app.until_counted()
    finally:
        app.stop()


def test_the_last_worker_closes_at_once(broker: str, tmp_path: Path) -> None:
    app = App(broker, "restart-alone", tmp_path)
    try:
        app.send(WORDS)
        alone = app.start(1, **SETTINGS)
        alone.until_running(PARTITIONS)
        alone.worker.close(restart=True)
        alone.until_event(ClosedEvent)
        app.start(1, **SETTINGS).until_running(PARTITIONS)
    finally:
        app.stop()


def test_tasks_with_a_standby_go_on_there_without_waiting_for_a_heartbeat(broker: str, tmp_path: Path) -> None:
    app = App(broker, "to-the-standby", tmp_path)
    settings = {"num_standby_replicas": 1, "heartbeat_interval_ms": 7_000, "session_timeout_ms": 30_000}
    try:
        first, second = start_two(app, settings)
        second.until(lambda _: len(active(first)) == len(active(second)) == PARTITIONS // 2)
        second.until(lambda _: second.reported(AssignedEvent)[-1].standby == active(first))
        first.worker.close(restart=True)
        first.until_event(ClosedEvent)
        left_s = time.monotonic()
        second.until(lambda _: len(active(second)) == PARTITIONS)
        assert time.monotonic() - left_s < 5, "the next heartbeat is in 7 s"
        assert [event.awaited for event in first.reported(RestartAnnouncedEvent)] == [True]
        app.send(WORDS)
        app.until_counted()
    finally:
        app.stop()


def test_small_state_is_restored_elsewhere_instead_of_waiting(broker, tmp_path, monkeypatch) -> None:
    """The leader has seen how fast it restores; it need not be many offsets here."""
    monkeypatch.setattr(progress, "RATE_MS", 1)
    monkeypatch.setattr(progress, "RATE_OFFSETS", 1)
    app = App(broker, "restored-soon", tmp_path)
    try:
        first, second = start_two(app, SETTINGS)
        second.worker.close()
        second.until_event(ClosedEvent)
        first.until_running(PARTITIONS)
        second = app.start(2, **SETTINGS)
        second.until_running(PARTITIONS // 2)
        before = active(second)
        second.worker.close(restart=True)
        second.until_event(ClosedEvent)
        assert [event.awaited for event in second.reported(RestartAnnouncedEvent)] == [True]
        first.until_running(PARTITIONS)
        assert not any(event.waiting for event in first.reported(DecisionEvent))
        second = app.start(2, **SETTINGS)
        second.until_running(PARTITIONS // 2)
        assert active(second) == before
        app.send(WORDS)
        app.until_counted()
    finally:
        app.stop()
