"""Early probing on a real broker: a newcomer gets its tasks once it is caught up, long before the interval."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from kstreams_assign.adapters.confluent import ClusterAdmin, RecordProducer
from kstreams_assign.events import AssignedEvent, DecisionEvent, EarlyProbeEvent
from kstreams_assign.model import TaskId
from kstreams_assign.worker.early import measure_copies
from kstreams_assign.worker.progress_topic import progress_topic
from tests.worker.app import PARTITIONS, App

WORDS = [b"word-%d" % (n % 97) for n in range(2_000)]
SETTINGS = {"acceptable_recovery_lag": 0, "max_warmup_replicas": PARTITIONS, "early_probing_floor_ms": 3_000}


@pytest.mark.parametrize("user_data", ["apache", "kip441"])
def test_warm_tasks_change_hands_at_once(broker: str, tmp_path: Path, user_data: str) -> None:
    app = App(broker, f"early-{user_data}", tmp_path)
    try:
        app.send(WORDS)
        first = app.start(1, **SETTINGS, user_data=user_data)
        first.until_running(PARTITIONS)
        app.until_counted()
        second = app.start(2, **SETTINGS, user_data=user_data)
        second.until(lambda events: any(isinstance(e, AssignedEvent) and e.warmup for e in events))
        _publish_rubbish(broker, app)
        second.until_running(PARTITIONS // 2)
        first.until_running(PARTITIONS // 2)
        asked = first.reported(EarlyProbeEvent) + second.reported(EarlyProbeEvent)
        joined = [e for e in second.reported(AssignedEvent) if e.warmup]
        assert [event.moves for event in asked] == [PARTITIONS // 2]
        assert joined[0].next_probe_ms - joined[0].time_ms > 500_000, "the interval was ten minutes"
        app.send(WORDS)
        app.until_counted()
    finally:
        app.stop()


def _publish_rubbish(broker: str, app: App) -> None:
    """Publish what a foreign program might write there."""
    topic = progress_topic(app.name)
    ClusterAdmin(broker).create_topics({topic: 1}, 60)
    producer = RecordProducer(broker, delivery_timeout_ms=60_000)
    for generation in range(10):
        headers = [("generation", b"%d" % generation)]
        for value in (None, b"", b"rubbish", b"\xff" * 40):
            producer.produce(topic, 0, b"k", value, headers)
    producer.flush(60)
    producer.close()


def test_without_early_probing_the_newcomer_waits_for_the_interval(broker: str, tmp_path: Path) -> None:
    app = App(broker, "no-early", tmp_path)
    try:
        app.send(WORDS)
        first = app.start(1, **SETTINGS, early_probing=False)
        first.until_running(PARTITIONS)
        app.until_counted()
        second = app.start(2, **SETTINGS, early_probing=False)
        second.until(lambda events: any(isinstance(e, AssignedEvent) and e.warmup for e in events))
        assert progress_topic(app.name) not in ClusterAdmin(broker).partition_counts([progress_topic(app.name)], 60)
    finally:
        app.stop()


def test_with_the_queue_all_warm_ups_are_handed_over_in_one_rebalance(broker: str, tmp_path: Path) -> None:
    app = App(broker, "queue", tmp_path)
    settings = {**SETTINGS, "max_warmup_replicas": 1, "warmup_queue": True}
    try:
        app.send(WORDS)
        first = app.start(1, **settings)
        first.until_running(PARTITIONS)
        app.until_counted()
        second = app.start(2, **settings)
        second.until_running(PARTITIONS // 2)
        decisions = sorted(
            first.reported(DecisionEvent) + second.reported(DecisionEvent), key=lambda event: event.time_ms
        )
        rounds = [decision for decision in decisions if decision.kind == "round"]
        assert [len(decision.changed) for decision in rounds] == [0, 0, PARTITIONS // 2]
        app.send(WORDS)
        app.until_counted()
    finally:
        app.stop()


def test_reports_of_members_make_a_rate_and_a_replica_that_restarts_loses_it() -> None:
    replica = UUID(int=1), TaskId(0, 3)
    heard = {replica[0]: {replica[1]: 100, TaskId(0, 4): 5}}
    ends = {replica[1]: 1_000}
    copies = measure_copies({}, heard, ends, 10_000)
    assert copies.keys() == {replica}, "of the other task no end is known"
    assert (copies[replica].remaining, copies[replica].offsets_per_s) == (900, None)
    copies = measure_copies(copies, {replica[0]: {replica[1]: 500}}, ends, 12_000)
    assert (copies[replica].offsets_per_s, copies[replica].left_ms) == (200, 2_500)
    assert measure_copies(copies, {replica[0]: {replica[1]: 0}}, ends, 14_000)[replica].remaining == 1_000
