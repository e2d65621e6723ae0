"""The shell of a warm join without brokers: a group that is at rest, state that grows, and a disk that is full."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from kstreams_assign import Config
from kstreams_assign.engine.warm_disk import Disk
from kstreams_assign.events import Event, NoRoomEvent, WarmingUpEvent
from kstreams_assign.model import TaskId
from kstreams_assign.observe.streams_snapshot import StreamsSnapshot
from kstreams_assign.observe.streams_state import STANDBYS
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.worker import warm_joining
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.state_sizes import RESERVE, measure_disk
from kstreams_assign.worker.warm_joining import WarmJoining
from tests.observe.test_streams_reasons import ALL, LOG, member, snapshot, tasks

PROCESS, MEMBER = str(UUID(int=7)), str(UUID(int=8))
OFFSETS, MIB = 100_000, 1 << 20
ALONE = replace(
    snapshot(member("a", tasks(*ALL), tasks(*ALL)), ends=dict.fromkeys(LOG, OFFSETS + 10)),
    settings={STANDBYS: "1"},
)
"""The process gets two tasks with state, and a standby of the third."""


class Scene:
    """A group, this process's state, and its disk: half of each task's state is here."""

    def __init__(self, free_bytes: int) -> None:
        self.free_bytes = free_bytes
        self.kept: frozenset[TaskId] = frozenset()
        self.events: list[Event] = []

    def snapshot(self) -> StreamsSnapshot:
        return ALONE

    def warm_up(self, tasks: frozenset[TaskId]) -> None:
        self.kept = tasks

    def lags(self) -> Mapping[TaskId, int]:
        """The state of a task that is restored alone is complete."""
        if len(self.kept) < 2:
            return dict.fromkeys(self.kept, 0)
        return {task: OFFSETS // 2 - number for number, task in enumerate(sorted(self.kept))}

    def disk(self) -> Disk:
        return Disk(self.free_bytes, 0, dict.fromkeys(self.kept, 16 * MIB))

    def joining(self, **settings: object) -> WarmJoining:
        config = Config("app", "localhost:9092", group_protocol="streams", **settings)  # type: ignore[arg-type]
        log = EventLog("me", self.events.append)
        return WarmJoining(config, PROCESS, MEMBER, self, self, self.lags, self.disk, log)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "free_bytes", "limit"),
    [({}, 16 * MIB, "state_dir = state"), ({"warm_join_max_bytes": 64 * MIB}, 99 * MIB, "warm_join_max_bytes = ")],
)
def test_tasks_without_room_are_named_with_the_setting_and_the_fix(
    monkeypatch: pytest.MonkeyPatch, settings: Mapping[str, object], free_bytes: int, limit: str
) -> None:
    monkeypatch.setattr(warm_joining, "draw_stagger_ms", lambda: 0)
    scene = Scene(free_bytes)
    join = scene.joining(state_dir="state", **settings).wait(lambda: False)
    first, then = (event.tasks for event in scene.events if isinstance(event, WarmingUpEvent))
    assert first == ("1_0", "1_1", "1_2")
    (no_room,) = (event for event in scene.events if isinstance(event, NoRoomEvent))
    assert {*no_room.tasks, *then} == {*first}
    assert len(then) == 1
    (warning,) = no_room.warnings
    assert warning.startswith(limit)
    assert f"the state of {', '.join(no_room.tasks)} is not restored before this process joins" in warning
    assert "there is room for 16,777,216" in warning
    assert join is not None
    assert join.reason == "1 task is warm, and 1 had no room on the disk"


def test_the_disk_is_that_of_the_state_directory(tmp_path: Path) -> None:
    with closing(StateDirectory(tmp_path, "app", clock_ms=lambda: 0)) as directory:
        folder = directory.task_path(TaskId(0, 1))
        (folder / "store").mkdir(parents=True)
        (folder / "store" / "file").write_bytes(bytes(5_000))
        disk = measure_disk(directory)
    assert disk is not None
    assert disk.held_bytes == {TaskId(0, 1): 5_000}
    assert 0 < disk.reserve_bytes < disk.free_bytes / RESERVE
