"""The status and the metrics of a process with a warm-up queue: the replicas that wait are ``queued``, no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prometheus_client.parser import text_string_to_metric_families as read_text

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.config import Config
from kstreams_assign.errors import StateError
from kstreams_assign.group.member import State
from kstreams_assign.group.values import Adopted, WarmupQueue
from kstreams_assign.model import SubtopologyShape, TopologyShape
from kstreams_assign.status.as_json import as_json
from kstreams_assign.status.build import status_of
from kstreams_assign.status.metrics import exposition
from kstreams_assign.status.values import Status
from kstreams_assign.status.views import EarlyView, MemberView, Views
from kstreams_assign.tasks.lifecycle import TaskState
from tests.restore.logs import Log
from tests.worker import damage
from tests.worker.damage import OTHER, OTHERS, TASK, TOTALS, Rig, entries

SHAPE = TopologyShape((SubtopologyShape(("orders",), (TOTALS,)),))
CONFIG, PROCESS = Config("app", "nowhere:1"), UUID(int=1)
QUEUE = WarmupQueue((TASK, OTHER), 1)
ADOPTED = Adopted({}, frozenset(), frozenset(QUEUE.order), queue=QUEUE, warmups={PROCESS: QUEUE.order})


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """Two warm-ups, one at a time; an open transaction holds back the end of each, and a turn lasts while it does."""
    monkeypatch.setattr(damage, "PACING", replace(damage.PACING, stalled_ms=3_600_000))
    rig = Rig(tmp_path, Log(entries=entries(50), held_back=10))
    rig.reader.logs[OTHERS].held_back = 10
    with rig:
        yield rig
        for task in QUEUE.order:
            rig.thread.close(task, None, 1)
        rig.until(lambda: set(QUEUE.order) <= rig.closed_tasks)


def warm_up(rig: Rig) -> None:
    rig.thread.queue(QUEUE)
    for task in QUEUE.order:
        rig.thread.tail(task, None)


def status(rig: Rig) -> Status:
    now_ms = monotonic_ms()
    views = Views(
        member=MemberView(State.STABLE, 1, ADOPTED, False, None, False, False, 5.0),
        early=EarlyView(),
        roles=ADOPTED.roles(),
        states=dict.fromkeys(QUEUE.order, TaskState.TAILING),
        progress=rig.thread.progress(),
        queued=rig.thread.queued,
        warnings={},
        records_total=0,
        commits_total=0,
        turned_ms=now_ms,
        closing=False,
        failure=None,
        now_ms=now_ms,
        monotonic_ms=now_ms,
        stopped=rig.thread.stopped(),
    )
    return status_of(CONFIG, SHAPE, PROCESS, views)


def seen(rig: Rig) -> tuple[dict[str, str], dict[str, bool], float]:
    """Return the state of each task, whether each warm-up is queued, and how many replicas the metrics count."""
    now = status(rig)
    shown: dict[str, Any] = as_json(now)
    families = {family.name: family for family in read_text(exposition(now, "")[0].decode())}
    return (
        {task["task"]: task["state"] for task in shown["tasks"]},
        {warmup["task"]: warmup["queued"] for warmup in shown["warmups"]},
        families["kafka_streams_stream_state_updater_metrics_standby_updating_tasks"].samples[0].value,
    )


def left(rig: Rig, offsets: int) -> Callable[[], bool]:
    def reached() -> bool:
        progress = rig.thread.progress().get(OTHER)
        return progress is not None and progress.remaining == offsets

    return reached


def test_a_warm_up_is_queued_until_those_before_it_have_caught_up(rig: Rig) -> None:
    warm_up(rig)
    first, second = map(str, QUEUE.order)
    rig.until(lambda: seen(rig) == ({first: "tailing", second: "queued"}, {first: False, second: True}, 1))
    rig.reader.logs[damage.CHANGELOG].held_back = 0
    rig.until(lambda: seen(rig) == ({first: "tailing", second: "tailing"}, {first: False, second: False}, 2))


def test_a_warm_up_behind_a_stopped_one_is_restored_and_not_queued(rig: Rig) -> None:
    def refuse(_: Path) -> None:
        raise StateError("no space left")

    rig.spoil = refuse
    warm_up(rig)
    rig.until(left(rig, 10))
    first, second = map(str, QUEUE.order)
    rig.until(lambda: seen(rig) == ({first: "stopped", second: "tailing"}, {first: False, second: False}, 1))
