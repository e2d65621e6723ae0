"""A worker with a short session sends heartbeats in time, also where the brokers ask for few."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.worker.test_streams_member import Coordinator, Scene, answer


def test_heartbeats_are_sent_three_times_in_a_session_that_is_shorter_than_the_groups_interval(tmp_path: Path) -> None:
    scene = Scene(tmp_path, session_timeout_ms=1_000, heartbeat_interval_ms=300)
    first = replace(answer(3, 0), heartbeat_interval_ms=15_000)
    scene.heartbeats = Coordinator(first, replace(first, active_tasks=None, standby_tasks=None, warmup_tasks=None))
    scene.joined()
    try:
        scene.heartbeats.until(6)
    finally:
        scene.close()
