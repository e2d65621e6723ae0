"""What a member of a streams group restores for others that drain, and what it answers."""

from __future__ import annotations

from kstreams_assign.engine.warm_disk import Disk, Shortage
from kstreams_assign.engine.warm_join import LOOK_INTERVAL_MS, DiskMeasured, ReportShortage, WarmUp
from kstreams_assign.engine.warm_leave import REPEAT_MS, MessageHeard
from kstreams_assign.engine.warm_takeover import (
    KEEP_MS,
    Answer,
    AwaitTasks,
    CopiesMeasured,
    Effect,
    Event,
    MeasureDisk,
    WarmTakeover,
)
from kstreams_assign.model import TaskId
from kstreams_assign.wire.leave_messages import LeaveAnnounced, WarmReported

ACCEPTABLE, ME = 100, "me"
NOTHING = frozenset[TaskId]()


def tasks(*partitions: int) -> frozenset[TaskId]:
    return frozenset(TaskId(0, partition) for partition in partitions)


def announced(*partitions: int, drain_id: str = "d", member: str = "leaver", leaves: bool = False) -> MessageHeard:
    named = {ME: dict.fromkeys(tasks(*partitions), 1_000), "other": dict.fromkeys(tasks(77), 1_000)}
    return MessageHeard(LeaveAnnounced(drain_id, member, named if partitions else {}, leaves))


def copies(lags: dict[int, int], active: frozenset[TaskId] = NOTHING) -> CopiesMeasured:
    return CopiesMeasured({TaskId(0, number): lag for number, lag in lags.items()}, active)


def report(*warm: int, no_room: frozenset[TaskId] = NOTHING, drain_id: str = "d") -> Answer:
    return Answer(WarmReported(drain_id, ME, tasks(*warm), no_room))


class Taker:
    """The machine, with a clock that the test moves."""

    def __init__(self, max_bytes: int | None = None) -> None:
        self.machine = WarmTakeover(ME, ACCEPTABLE, max_bytes)
        self.now_ms = 50_000

    def handle(self, event: Event) -> list[Effect]:
        """Return the effects, without looks at the disk."""
        effects = self.machine.handle(event, self.now_ms)
        return [effect for effect in effects if not isinstance(effect, MeasureDisk)]


def test_it_restores_what_it_will_get_answers_news_and_asks_for_the_tasks_when_they_come() -> None:
    taker = Taker()
    assert taker.handle(announced(1, 2)) == [WarmUp(tasks(1, 2))]
    assert taker.handle(copies({})) == [report()], "it answers that it listens"
    assert taker.handle(copies({1: ACCEPTABLE, 2: ACCEPTABLE + 1})) == [report(1)]
    assert taker.handle(copies({1: 0, 2: ACCEPTABLE + 1})) == []
    assert taker.handle(copies({1: 0, 2: 7})) == [report(1, 2)]
    assert taker.handle(announced(1, 2)) == []
    taker.now_ms += REPEAT_MS
    assert taker.handle(copies({1: 0, 2: 7})) == [report(1, 2)], "again, as it may not have been heard"
    assert taker.handle(announced(1, 2, leaves=True)) == [AwaitTasks(tasks(1, 2))]
    assert taker.handle(announced(1, 2, leaves=True)) == []
    assert taker.handle(copies({1: 0, 2: 7})) == []
    assert taker.handle(copies({}, active=tasks(1))) == []
    assert taker.handle(copies({}, active=tasks(1, 2))) == [WarmUp(NOTHING)]
    assert taker.machine.leavers == ()


def test_a_task_that_runs_here_is_warm() -> None:
    taker = Taker()
    taker.handle(announced(1, 2))
    assert taker.handle(copies({2: 0}, active=tasks(1))) == [report(1, 2)]


def test_it_follows_a_new_prediction_and_forgets_one_without_tasks_for_it() -> None:
    taker = Taker()
    taker.handle(announced(1))
    taker.handle(copies({1: 0}))
    assert taker.handle(announced(2)) == [WarmUp(tasks(2))]
    assert taker.handle(copies({1: 0})) == [report()]
    assert taker.handle(announced()) == [WarmUp(NOTHING)]
    assert taker.handle(copies({1: 0})) == []
    assert taker.handle(announced()) == []


def test_another_drain_of_the_same_member_is_answered_anew() -> None:
    taker = Taker()
    taker.handle(announced(1))
    taker.handle(copies({1: 0}))
    assert taker.handle(announced(1, drain_id="later")) == []
    assert taker.handle(copies({1: 0})) == [report(1, drain_id="later")]


def test_a_member_that_is_not_heard_of_any_more_is_forgotten() -> None:
    taker = Taker()
    taker.handle(announced(1))
    taker.handle(announced(2, member="another"))
    taker.now_ms += KEEP_MS - 1
    assert taker.handle(announced(2, member="another")) == []
    taker.now_ms += 1
    assert taker.handle(copies({}))[0] == WarmUp(tasks(2))
    assert taker.machine.leavers == ("another",)


def test_tasks_that_do_not_come_are_kept_for_a_while_only() -> None:
    taker = Taker()
    taker.handle(announced(1, leaves=True))
    taker.now_ms += KEEP_MS - 1
    assert taker.handle(copies({1: 0})) == []
    taker.now_ms += 1
    assert taker.handle(copies({1: 0})) == [WarmUp(NOTHING)]


def test_its_own_announcements_and_answers_of_others_are_ignored() -> None:
    taker = Taker()
    assert taker.handle(announced(1, member=ME)) == []
    assert taker.handle(MessageHeard(WarmReported("d", "other", tasks(1)))) == []
    assert taker.machine.leavers == ()


def test_the_disk_is_measured_each_second_while_a_member_drains() -> None:
    machine = WarmTakeover(ME, ACCEPTABLE)
    assert machine.handle(copies({}), 50_000) == []
    machine.handle(announced(1), 50_000)
    assert MeasureDisk() in machine.handle(copies({}), 50_000)
    assert MeasureDisk() not in machine.handle(copies({}), 50_000 + LOOK_INTERVAL_MS - 1)
    assert MeasureDisk() in machine.handle(copies({}), 50_000 + LOOK_INTERVAL_MS)


def full(**held: int) -> DiskMeasured:
    """A disk with room for 10 MiB, half of which is the reserve. ``held`` is in MiB."""
    return DiskMeasured(Disk(10 << 20, 5 << 20, {TaskId.parse(name[1:]): mib << 20 for name, mib in held.items()}))


def test_a_task_without_room_is_not_restored_and_the_answer_says_so() -> None:
    taker = Taker()
    taker.handle(announced(1, 2))
    assert taker.handle(full()) == [], "nothing is here to measure by"
    taker.handle(copies({1: 200, 2: 500}))
    restored = full(t0_1=16, t0_2=10)  # 1,300 offsets take 26 MiB: 4 and 10 MiB are missing
    report_it, warm_up = taker.handle(restored)
    assert report_it == ReportShortage(Shortage(tasks(2), 14 << 20, 5 << 20, "state_dir"))
    assert warm_up == WarmUp(tasks(1))
    assert taker.handle(restored) == [], "it is decided once"
    assert taker.handle(copies({1: 0})) == [report(1, no_room=tasks(2))]


def test_replicas_that_are_here_already_do_not_count_for_what_is_restored_for_others() -> None:
    taker, mib = Taker(), 1 << 20
    named = {ME: {TaskId(0, 0): 10_000_000}}
    taker.handle(MessageHeard(LeaveAnnounced("d", "leaver", named, leaves=False)))
    taker.handle(copies({0: 9_900_000, 1: 0, 2: 0, 3: 0, 4: 0}))
    held = {TaskId(0, 0): 50 * mib, **{TaskId(0, number): 5_000 * mib for number in range(1, 5)}}
    assert taker.handle(DiskMeasured(Disk(500_000 * mib, 50_000 * mib, held))) == []
    assert taker.handle(DiskMeasured(Disk(51_000 * mib, 50_000 * mib, held))) != [], "5 GB are needed"


def test_state_that_is_restored_for_others_is_limited_by_the_setting() -> None:
    taker = Taker(max_bytes=0)
    taker.handle(announced(1))
    taker.handle(copies({1: 500}))
    report_it, warm_up = taker.handle(full(t0_1=20))
    assert report_it == ReportShortage(Shortage(tasks(1), 20 << 20, 0, "warm_join_max_bytes"))
    assert warm_up == WarmUp(NOTHING)
