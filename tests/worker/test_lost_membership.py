"""A member that was lost and has joined again during a call: its tasks are others', until they are assigned again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from kstreams_assign import Event, Record, Store, Subtopology, Task, TaskId, TopicPartition
from kstreams_assign.events import LostEvent
from kstreams_assign.group.values import Adopted
from kstreams_assign.testing import around, driver
from kstreams_assign.testing.broker import MemoryBroker

WORDS = TopicPartition("words", 0)
ACTIVE = Adopted({TaskId(0, 0): (WORDS,)}, frozenset(), frozenset())
TOPICS = ("word-counts", "test-counts-changelog")


class Member(around.OnlyMember):
    """A membership that can be lost; the lease is full again by the time the loop looks at it."""

    losses = 0


class Scene:
    """A loop, what happens to its member during the next call, and what happened in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, guarantee: str, *, auto_commit: bool = True) -> None:
        self.log: list[str] = []
        self.during_call: Callable[[], None] = lambda: None
        commit = MemoryBroker.commit

        def noted(broker: MemoryBroker, offsets: Mapping[TopicPartition, int], metadata: Mapping[TopicPartition, str]):
            self.log.append(f"commit {offsets[WORDS]}")
            commit(broker, offsets, metadata)

        monkeypatch.setattr(MemoryBroker, "commit", noted)
        monkeypatch.setattr(driver, "OnlyMember", Member)
        counting = Subtopology(self.count, sources=["words"], stores=[Store("counts")], sinks=["word-counts"])
        self.driver = driver.TopologyTestDriver(
            [counting], auto_commit=auto_commit, on_event=self.hear, processing_guarantee=guarantee
        )
        self.loop = self.driver._loop
        assert isinstance(self.loop.group, Member)
        self.member = self.loop.group

    def hear(self, event: Event) -> None:
        if isinstance(event, LostEvent):
            self.log.append("lost")

    def count(self, task: Task, records: Sequence[Record]) -> None:
        for record in records:
            assert record.key is not None
            count = b"%d" % (int(task.store("counts").get(record.key) or b"0") + 1)
            task.store("counts").put(record.key, count)
            task.emit("word-counts", record.key, count)
        during_call, self.during_call = self.during_call, lambda: None
        during_call()

    def drop(self) -> None:
        self.loop.drop_all("UNKNOWN_MEMBER_ID")

    def lose(self) -> None:
        self.member.losses += 1
        self.drop()

    def join(self) -> None:
        self.loop.adopt(2, ACTIVE)

    def pipe(self) -> None:
        self.driver.pipe("words", b"to", b"")

    def written(self) -> list[list[bytes | None]]:
        """Return what was written to each topic since the last call."""
        return [[record.value for record in self.driver.read(topic)] for topic in TOPICS]


@pytest.fixture(params=["at_least_once", "exactly_once_v2"])
def scene(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Scene]:
    scene = Scene(monkeypatch, request.param)
    yield scene
    scene.driver.close()


def test_a_batch_of_a_lost_membership_is_neither_sent_nor_committed_in_the_next(scene: Scene) -> None:
    scene.during_call = scene.lose
    scene.pipe()
    assert scene.log == ["lost"]
    assert scene.written() == [[], []]


def test_no_output_of_a_lost_membership_leaves_before_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, "at_least_once", auto_commit=False)
    with scene.driver:
        scene.pipe()
        assert scene.written() == [[b"1"], []], "it leaves before the commit"
        scene.during_call = scene.lose
        scene.pipe()
        assert scene.log == ["lost"]
        assert scene.written() == [[], []]


@pytest.mark.parametrize("losses", [1, 2])
def test_a_task_that_is_assigned_again_goes_on_from_its_last_commit(scene: Scene, losses: int) -> None:
    def lose_and_join() -> None:
        for _ in range(losses):
            scene.lose()
        scene.join()

    scene.pipe()
    scene.during_call = lose_and_join
    scene.pipe()
    scene.pipe()
    assert scene.log == ["commit 1", *["lost"] * losses, "commit 2", "commit 3"]
    assert scene.written() == [[b"1", b"2", b"3"]] * 2


def test_a_loss_counts_before_the_order_to_drop_the_tasks_has_come(scene: Scene) -> None:
    def lose() -> None:
        scene.member.losses += 1

    scene.during_call = lose
    scene.pipe()
    assert (scene.log, scene.written()) == ([], [[], []])
    scene.drop()
    scene.join()
    scene.pipe()
    assert scene.log == ["lost", "commit 2"]
    assert scene.written() == [[b"1", b"2"], [b"2"]], "one commit of both records"


def test_the_last_commit_of_a_worker_leaves_out_a_lost_membership(scene: Scene) -> None:
    def lose_and_stop() -> None:
        scene.member.losses += 1
        scene.loop.stop()

    scene.during_call = lose_and_stop
    scene.pipe()
    assert (scene.log, scene.written()) == ([], [[], []])
