"""A member of a streams group that an answer ends keeps its place until it leaves: in a worker and in a program."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kstreams_assign import CommitRefused, GroupMember, Lost, ShutdownRequested, TopologyMismatch
from kstreams_assign.adapters.signals import EndRequest
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import TaskId
from kstreams_assign.wire.streams_heartbeat import INCORRECTLY_PARTITIONED_TOPICS, SHUTDOWN_APPLICATION, GroupStatus
from kstreams_assign.worker import group_member
from kstreams_assign.worker.group_member import Assignment, Questions
from tests.worker.test_streams_member import AT, PROCESS, SECONDS, SHAPE, Coordinator, Loop, Scene, answer

OFTEN = replace(answer(3, 0), heartbeat_interval_ms=10)
ends = pytest.mark.parametrize(
    ("code", "kind"),
    [(SHUTDOWN_APPLICATION, ShutdownRequested), (INCORRECTLY_PARTITIONED_TOPICS, TopologyMismatch)],
    ids=["shutdown", "wrong-topics"],
)


class Program(Loop):
    """What the membership asks goes on to the program that polls."""

    def __init__(self, questions: Questions) -> None:
        super().__init__()
        self._questions = questions

    def adopt(self, number: int, adopted: Adopted) -> None:
        super().adopt(number, adopted)
        self._questions.adopt(number, adopted)

    def drop_all(self, reason: str, then: Callable[[], None]) -> None:
        super().drop_all(reason, then)
        self._questions.drop_all(reason, then)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    scene.heartbeats = Coordinator(OFTEN)
    yield scene
    scene.close()


@pytest.fixture
def program(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> GroupMember:
    """A ``GroupMember`` whose coordinator is the scene's."""

    def connect(*given: object) -> tuple[object, Callable[[EndRequest], None]]:
        (questions,) = (each for each in given if isinstance(each, Questions))
        scene.loop = Program(questions)
        return scene.make(), lambda _ending: None

    monkeypatch.setattr(group_member, "ClusterAdmin", lambda *_settings: scene.loop)
    monkeypatch.setattr(group_member, "connect_member", connect)
    return GroupMember(scene.config, SHAPE.subtopologies, PROCESS)


def until_active(program: GroupMember) -> None:
    """Answer the assignment that has the task."""
    event = program.poll(SECONDS)
    assert isinstance(event, Assignment)
    assert event.active.keys() == {TaskId(0, 0)}
    program.let_go()


def end(scene: Scene, code: int) -> None:
    """Have each answer carry the status."""
    scene.heartbeats.answers = [replace(OFTEN, status=(GroupStatus(code, "in"),))]


def epochs(scene: Scene) -> list[int]:
    return [request.member_epoch for request in scene.heartbeats.sent]


@ends
def test_a_worker_that_a_status_ends_keeps_its_place_while_its_tasks_are_closed(
    scene: Scene, code: int, kind: type[Exception]
) -> None:
    end(scene, code)
    member = scene.make()
    with pytest.raises(kind):
        member.run()
    before, leaves = len(scene.heartbeats.sent), threading.Event()
    keeping = threading.Thread(target=member.keep_place, args=(leaves,), daemon=True)
    keeping.start()
    scene.heartbeats.until(before + 3)
    member.commit(AT, SECONDS, {})
    leaves.set()
    keeping.join(SECONDS)
    assert not keeping.is_alive()


@ends
def test_a_program_that_hears_of_the_end_keeps_its_place_until_its_with_block_ends(
    scene: Scene, program: GroupMember, code: int, kind: type[Exception]
) -> None:
    with program:
        until_active(program)
        end(scene, code)
        with pytest.raises(kind):
            program.poll(SECONDS)
        with pytest.raises(kind):
            program.poll(0)
        scene.heartbeats.until(len(scene.heartbeats.sent) + 3)
        program.commit(AT)
        assert set(epochs(scene)) == {0, 3}
    assert [each.generation for each in scene.commits.sent] == [3]
    assert epochs(scene)[-1] == -1, "it has left"


def test_a_program_that_loses_its_place_after_the_end_drops_its_tasks_and_hears_of_the_end_again(
    scene: Scene, program: GroupMember
) -> None:
    with program:
        until_active(program)
        end(scene, SHUTDOWN_APPLICATION)
        with pytest.raises(ShutdownRequested):
            program.poll(SECONDS)
        scene.heartbeats.answers = [answer(0, code=25)]
        assert isinstance(program.poll(SECONDS), Lost)
        with pytest.raises(CommitRefused):
            program.commit(AT)
        with pytest.raises(ShutdownRequested):
            program.poll(0)


def test_an_error_in_the_time_after_the_end_does_not_take_its_place(scene: Scene, program: GroupMember) -> None:
    with program:
        until_active(program)
        end(scene, SHUTDOWN_APPLICATION)
        with pytest.raises(ShutdownRequested):
            program.poll(SECONDS)
        scene.heartbeats.answers = [ValueError("a bug")]
        program._threads[0].join(SECONDS)
        assert not program._threads[0].is_alive()
        with pytest.raises(ShutdownRequested):
            program.poll(0)
        scene.heartbeats.answers = [answer(-1)]
