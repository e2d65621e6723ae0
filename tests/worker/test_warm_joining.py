"""The shell of a warm join without brokers: a group that is at rest, state that grows, and a disk that is full."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kstreams_assign import Config
from kstreams_assign.engine.warm_disk import Disk
from kstreams_assign.errors import BrokerError, BrokerUnavailable, RecordRefused
from kstreams_assign.events import Event, NoRoomEvent, ProgressUnreadableEvent, WarmingUpEvent, WarmJoinAloneEvent
from kstreams_assign.group.streams_outlook import Newcomer
from kstreams_assign.model import TaskId
from kstreams_assign.observe.streams_snapshot import StreamsSnapshot
from kstreams_assign.observe.streams_state import STANDBYS
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.status.views import JoinView
from kstreams_assign.wire.join_messages import JoinAnnounced, Stage, read_join_message, write_join_message
from kstreams_assign.worker import warm_joining
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.join_announcements import JOIN, JoinAnnouncements
from kstreams_assign.worker.state_sizes import RESERVE, measure_disk
from kstreams_assign.worker.warm_joining import WarmJoining
from tests.observe.test_streams_reasons import ALL, LOG, member, snapshot, tasks
from tests.worker.test_warm_leaving import Bus, Topic

PROCESS, MEMBER = str(UUID(int=7)), str(UUID(int=8))
OFFSETS, MIB = 100_000, 1 << 20
ALONE = replace(
    snapshot(member("a", tasks(*ALL), tasks(*ALL)), ends=dict.fromkeys(LOG, OFFSETS + 10)),
    settings={STANDBYS: "1"},
)
"""The process gets two tasks with state, and a standby of the third."""


@pytest.fixture(autouse=True)
def _own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock takes 10 ms, and no turn waits. The machine runs for an hour."""
    ticks = count(3_600_000, 10)
    monkeypatch.setattr(warm_joining, "monotonic_ms", lambda: next(ticks))
    monkeypatch.setattr(warm_joining, "TURN_S", 0)


class Scene:
    """A group, this process's state, and its disk: half of each task's state is here."""

    def __init__(self, free_bytes: int = 1 << 40, topic_fails: Exception | None = None) -> None:
        self.free_bytes = free_bytes
        self.kept: frozenset[TaskId] = frozenset()
        self.events: list[Event] = []
        self.bus, self.topic_fails = Bus(), topic_fails
        self.views: list[JoinView] = []

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
        topic = self.topic = Topic(self.bus)
        topic.fails = self.topic_fails
        announcements = JoinAnnouncements(topic, log)  # type: ignore[arg-type]
        me = Newcomer(MEMBER, PROCESS)
        return WarmJoining(config, me, self, self, announcements, self.lags, self.disk, log)  # type: ignore[arg-type]

    def reported(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.mark.parametrize(
    ("settings", "free_bytes", "limit"),
    [({}, 16 * MIB, "state_dir = state"), ({"warm_join_max_bytes": 64 * MIB}, 99 * MIB, "warm_join_max_bytes = ")],
)
def test_tasks_without_room_are_named_with_the_setting_and_the_fix(
    monkeypatch: pytest.MonkeyPatch, settings: Mapping[str, object], free_bytes: int, limit: str
) -> None:
    monkeypatch.setattr(warm_joining, "draw_stagger_ms", lambda: 0)
    scene = Scene(free_bytes, BrokerError("not allowed"))
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


def test_it_waits_until_the_tasks_of_a_member_that_has_left_are_assigned(monkeypatch: pytest.MonkeyPatch) -> None:
    one_left = replace(ALONE, group=snapshot(member("a", tasks("0_0"), tasks("0_0")), group_epoch=8).group)
    looks = [one_left, one_left, ALONE]
    monkeypatch.setattr(Scene, "snapshot", lambda _: looks.pop(0) if looks[1:] else ALONE)
    join = Warm().start().wait(lambda: False)
    assert join is not None
    assert join.reason == "2 tasks are warm"
    assert looks == [ALONE]


OTHER = JoinAnnounced(str(UUID(int=9)), str(UUID(int=10)), 1, Stage.RESTORING, 15_000)
"""It began before this process."""


class Warm(Scene):
    """A process whose state is complete at once, and whose first turns may bring something."""

    def __init__(self, *turns: Any, topic_fails: Exception | None = None) -> None:
        super().__init__(topic_fails=topic_fails)
        self.turns = list(turns)

    def lags(self) -> Mapping[TaskId, int]:
        if self.turns and self.said():
            self.turns.pop(0)()
        if self.shell.view is not None:
            self.views.append(self.shell.view)
        return dict.fromkeys(self.kept, 0)

    def said(self) -> list[JoinAnnounced]:
        """What this process has announced, in order."""
        mine = (record.value for record in self.bus.records if record.key == MEMBER.encode())
        return [read_join_message(value) for value in mine if value is not None]

    def hear(self, value: bytes) -> None:
        self.bus_topic.publish(b"other", value, [(JOIN, b"1")], ExitStack())

    def start(self) -> WarmJoining:
        self.shell = self.joining(state_dir="state")
        self.bus_topic = Topic(self.bus)
        return self.shell


def test_a_process_announces_itself_until_it_is_a_member() -> None:
    scene = Warm()
    shell = scene.start()
    join = shell.wait(lambda: False)
    assert join is not None
    assert shell.view is None
    shell.end(is_member=True)
    shell.end(is_member=False)
    assert [message.stage for message in scene.said()] == [Stage.RESTORING, Stage.WARM, Stage.JOINED]
    assert {message.member_id for message in scene.said()} == {MEMBER}
    assert not scene.reported(WarmJoinAloneEvent)
    assert scene.views[-1] == JoinView(scene.kept, scene.kept, 0)


def test_it_predicts_again_with_another_that_announces_itself_and_follows_it() -> None:
    scene = Warm()
    scene.turns = [
        lambda: scene.hear(write_join_message(OTHER)),
        lambda: None,
        lambda: scene.hear(write_join_message(replace(OTHER, stage=Stage.WARM))),
    ]
    shell = scene.start()

    def joins_with_it() -> bool:
        return any(message.joiners == (OTHER.member_id,) for message in scene.reported(WarmingUpEvent))

    def ended() -> bool:
        if joins_with_it() and not scene.turns:
            scene.hear(write_join_message(replace(OTHER, stage=Stage.GONE)))
        return False

    join = shell.wait(ended)
    assert join is not None
    assert joins_with_it() or any(view.joiners == 1 for view in scene.views)


def test_a_damaged_announcement_is_reported_once_and_skipped() -> None:
    scene = Warm()
    scene.turns = [lambda: scene.hear(b"rubbish")]
    join = scene.start().wait(lambda: False)
    assert join is not None
    (event,) = scene.reported(ProgressUnreadableEvent)
    assert event.warnings[0].startswith("progress")
    assert "of a process that joins" in event.warnings[0]


REFUSED = RecordRefused("not allowed", "progress", 0, b"m", absent=False, forbidden=True)


@pytest.mark.parametrize("cause", [BrokerError("not allowed"), REFUSED])
def test_a_process_that_may_not_use_the_topic_goes_on_alone_with_one_warning(
    monkeypatch: pytest.MonkeyPatch, cause: Exception
) -> None:
    monkeypatch.setattr(warm_joining, "draw_stagger_ms", lambda: 0)
    scene = Warm(topic_fails=cause)
    shell = scene.start()
    join = shell.wait(lambda: False)
    shell.end(is_member=True)
    assert join is not None
    (event,) = scene.reported(WarmJoinAloneEvent)
    assert event.warnings == ("not allowed; this process predicts what it will get as if no other joined with it",)
    assert not scene.said()


def test_an_outage_of_the_topic_only_delays_the_announcement() -> None:
    scene = Warm(topic_fails=BrokerUnavailable("no answer"))
    shell = scene.start()
    join = shell.wait(lambda: False)
    shell.end(is_member=True)
    assert join is not None
    assert not scene.reported(WarmJoinAloneEvent)


def test_a_process_that_is_closed_before_it_joins_withdraws_its_announcement() -> None:
    scene = Warm()
    shell = scene.start()
    assert shell.wait(lambda: bool(scene.said())) is None
    shell.end(is_member=False)
    assert scene.said()[-1].stage is Stage.GONE


def test_a_process_that_has_something_to_say_does_not_wait_any_longer() -> None:
    scene, turns = Scene(), count()
    joining = scene.joining()

    def third_turn() -> bool:
        turn = next(turns)
        assert turn < 4, "it waits although it was asked to join"
        if turn == 3:
            joining.join_at_once("the application is to end")
        return False

    join = joining.wait(third_turn)
    assert join is not None
    assert join.reason == "the application is to end"
