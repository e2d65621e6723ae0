"""When a process joins a streams group: what it waits for, how long, and where waiting has no use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.engine.joiners import Joiners
from kstreams_assign.engine.warm_disk import Disk, Shortage
from kstreams_assign.engine.warm_join import (
    LOOK_INTERVAL_MS,
    AnnouncementsRefused,
    DiskMeasured,
    Effect,
    Event,
    GroupSeen,
    JoinGroup,
    LagsMeasured,
    LookAtGroup,
    LookFailed,
    ReportShortage,
    WarmJoin,
    WarmUp,
)
from kstreams_assign.group.member import Started
from kstreams_assign.group.streams_outlook import Newcomer, Outlook
from kstreams_assign.model import TaskId

ACCEPTABLE, TIMEOUT_MS, STAGGER_MS = 100, 60_000, 700
ME = Newcomer("me", "p-me")
LOOK = LookAtGroup((ME,))


def tasks(*partitions: int) -> frozenset[TaskId]:
    return frozenset(TaskId(0, partition) for partition in partitions)


def lags(**by_task: int) -> LagsMeasured:
    return LagsMeasured({TaskId.parse(name.removeprefix("t")): lag for name, lag in by_task.items()})


def seen(*partitions: int, standby: frozenset[TaskId] = frozenset()) -> GroupSeen:
    return GroupSeen(Outlook(tasks(*partitions) | {TaskId(1, 0)}, tasks(*partitions), standby))


class Joiner:
    """The machine of a process that cannot announce itself, with a clock that the test moves."""

    def __init__(self, stagger_ms: int = 0) -> None:
        self.machine = WarmJoin(Joiners(ME, 7), ACCEPTABLE, TIMEOUT_MS, stagger_ms)
        self.now_ms = 5_000
        assert self.handle(AnnouncementsRefused()) == []
        assert self.handle(Started()) == [LOOK]

    def handle(self, event: Event) -> list[Effect]:
        return self.machine.handle(event, self.now_ms)


def test_it_joins_once_the_state_of_its_active_tasks_is_warm() -> None:
    joiner = Joiner()
    assert joiner.handle(seen(1, 2, standby=tasks(7))) == [WarmUp(tasks(1, 2, 7))]
    assert joiner.handle(lags()) == []
    assert joiner.handle(lags(t0_1=ACCEPTABLE, t0_2=ACCEPTABLE + 1)) == []
    awaited = tasks(1, 2) | {TaskId(1, 0)}
    assert joiner.handle(lags(t0_1=0, t0_2=ACCEPTABLE)) == [JoinGroup("2 tasks are warm", awaited)]
    assert joiner.machine.joins
    assert joiner.handle(lags(t0_1=0, t0_2=0)) == [], "it joins once"


def test_a_warm_process_waits_its_turn_and_looks_again_before_it_joins() -> None:
    joiner, warm = Joiner(STAGGER_MS), lags(t0_1=0)
    joiner.handle(seen(1))
    assert joiner.handle(warm) == []
    joiner.now_ms += STAGGER_MS - 1
    assert joiner.handle(warm) == []
    joiner.now_ms += 1
    assert joiner.handle(warm) == [LOOK]
    assert joiner.handle(seen(1)) == []
    assert joiner.handle(warm) == [JoinGroup("1 task is warm", tasks(1) | {TaskId(1, 0)})]


def test_a_process_that_finds_another_joined_before_it_follows_the_group() -> None:
    joiner = Joiner(STAGGER_MS)
    joiner.handle(seen(1, 2))
    joiner.handle(lags(t0_1=0, t0_2=0))
    joiner.now_ms += STAGGER_MS
    assert joiner.handle(lags(t0_1=0, t0_2=0)) == [LOOK]
    assert joiner.handle(seen(3)) == [WarmUp(tasks(1, 2, 3))], "what is restored is kept until the outcome"
    assert joiner.handle(lags(t0_1=0, t0_2=0)) == []
    joiner.now_ms += 10
    assert joiner.handle(lags(t0_3=0)) == [], "its turn begins again"
    joiner.now_ms += STAGGER_MS
    assert joiner.handle(lags(t0_3=0)) == [LOOK]
    joiner.handle(seen(3))
    assert joiner.handle(lags(t0_3=0)) == [JoinGroup("1 task is warm", tasks(3) | {TaskId(1, 0)})]


def test_it_looks_again_and_follows_the_group() -> None:
    joiner = Joiner()
    joiner.handle(seen(1))
    assert joiner.handle(lags(t0_1=9_999)) == []
    joiner.now_ms += LOOK_INTERVAL_MS
    assert joiner.handle(lags(t0_1=9_999)) == [LOOK]
    assert joiner.handle(seen(1)) == [], "nothing has changed"
    assert joiner.handle(seen(2, 3)) == [WarmUp(tasks(2, 3))]
    assert joiner.handle(lags(t0_2=0)) == []
    assert joiner.handle(lags(t0_2=0, t0_3=0)) == [JoinGroup("2 tasks are warm", tasks(2, 3) | {TaskId(1, 0)})]


def test_it_joins_at_once_where_waiting_has_no_use() -> None:
    assert Joiner().handle(GroupSeen(Outlook(at_once="the group has no members"))) == [
        JoinGroup("the group has no members")
    ]
    stateless = Joiner().handle(GroupSeen(Outlook(active=tasks(1))))
    assert stateless == [JoinGroup("it gets no task with state", tasks(1))]


@pytest.mark.parametrize(
    "event",
    [GroupSeen(Outlook(at_once="a member died")), LookFailed("no access", passing=False)],
    ids=["gap", "failed"],
)
def test_tasks_whose_state_is_here_may_come_also_if_it_joins_at_once(event: Event) -> None:
    """Their state is kept up to date until they have come, or are awaited no longer."""
    joiner = Joiner()
    joiner.handle(seen(1, 2, standby=tasks(7)))
    joiner.handle(lags(t0_1=0))
    (join,) = joiner.handle(event)
    assert isinstance(join, JoinGroup)
    assert join.awaited == tasks(1, 2)


def test_tasks_whose_state_is_here_may_come_also_if_none_is_expected_any_more() -> None:
    joiner = Joiner()
    joiner.handle(seen(1, standby=tasks(7)))
    assert joiner.handle(GroupSeen(Outlook())) == [JoinGroup("it gets no task with state", tasks(1))]


def test_it_asks_again_where_brokers_do_not_answer_and_joins_where_nothing_can_be_known() -> None:
    joiner = Joiner()
    assert joiner.handle(LookFailed("no broker answered", passing=True)) == []
    joiner.now_ms += LOOK_INTERVAL_MS
    assert joiner.handle(lags()) == [LOOK]
    (join,) = joiner.handle(LookFailed("not allowed", passing=False))
    assert join == JoinGroup("what it will get is not known: not allowed")


def test_it_does_not_join_on_a_look_that_failed() -> None:
    joiner, warm = Joiner(STAGGER_MS), lags(t0_1=0)
    joiner.handle(seen(1))
    joiner.handle(warm)
    joiner.now_ms += STAGGER_MS
    assert joiner.handle(warm) == [LOOK]
    assert joiner.handle(LookFailed("one has just left", passing=True)) == []
    assert joiner.handle(warm) == []
    joiner.now_ms += LOOK_INTERVAL_MS
    assert joiner.handle(warm) == [LOOK]
    assert joiner.handle(seen(1, 2)) == [WarmUp(tasks(1, 2))], "it gets one of the tasks, too"


def test_it_joins_in_any_case_when_its_time_is_up() -> None:
    joiner = Joiner()
    joiner.handle(seen(1))
    joiner.now_ms += TIMEOUT_MS - 1
    assert joiner.handle(lags(t0_1=9_999)) == [LOOK]
    joiner.now_ms += 1
    (join,) = joiner.handle(lags(t0_1=9_999))
    reason = f"its state is not warm after warm_join_timeout_ms = {TIMEOUT_MS}"
    assert join == JoinGroup(reason, tasks(1) | {TaskId(1, 0)})


@given(st.lists(st.tuples(st.sets(st.integers(0, 3)), st.dictionaries(st.integers(0, 3), st.integers(0, 200)))))
def test_it_never_joins_with_a_cold_task_before_its_time(steps: list[tuple[set[int], dict[int, int]]]) -> None:
    """Whatever it sees and measures: a join that is not at once finds every task with state within the lag."""
    joiner = Joiner()
    expected: frozenset[TaskId] = frozenset()
    for wanted, measured in steps:
        effects = joiner.handle(seen(*wanted))
        if not wanted:
            assert effects == [JoinGroup("it gets no task with state", frozenset({TaskId(1, 0)}))]
            return
        expected = tasks(*wanted)
        effects = joiner.handle(LagsMeasured({TaskId(0, n): lag for n, lag in measured.items()}))
        warm = {TaskId(0, n) for n, lag in measured.items() if lag <= ACCEPTABLE}
        if any(isinstance(effect, JoinGroup) for effect in effects):
            assert expected <= warm
            return
        joiner.now_ms += 10


def full(**held: int) -> DiskMeasured:
    """A disk with room for 10 MiB, half of which is the reserve. ``held`` is in MiB."""
    return DiskMeasured(Disk(10 << 20, 5 << 20, {TaskId.parse(name[1:]): mib << 20 for name, mib in held.items()}))


def test_a_task_without_room_is_neither_restored_first_nor_waited_for() -> None:
    joiner = Joiner()
    outlook = seen(1, 2, standby=tasks(7)).outlook
    joiner.handle(GroupSeen(outlook, dict.fromkeys(outlook.restorable, 1_000)))
    assert joiner.handle(full()) == [], "nothing is here to measure by"
    joiner.handle(lags(t0_1=200, t0_2=500, t0_7=900))
    restored = full(t0_1=16, t0_2=10, t0_7=2)  # 1,400 offsets take 28 MiB: 4, 10 and 18 MiB are missing
    report, warm_up = joiner.handle(restored)
    assert report == ReportShortage(Shortage(tasks(2, 7), 32 << 20, 5 << 20, "state_dir"))
    assert warm_up == WarmUp(tasks(1))
    assert joiner.handle(restored) == [], "it is decided once"
    awaited = tasks(1, 2) | {TaskId(1, 0)}
    assert joiner.handle(lags(t0_1=0)) == [JoinGroup("1 task is warm, and 1 had no room on the disk", awaited)]


def test_a_process_without_room_for_any_task_joins() -> None:
    joiner = Joiner()
    joiner.machine = WarmJoin(Joiners(ME, 7), ACCEPTABLE, TIMEOUT_MS, 0, max_bytes=0)
    joiner.handle(AnnouncementsRefused())
    joiner.handle(Started())
    joiner.handle(GroupSeen(seen(1).outlook, {TaskId(0, 1): 1_000}))
    joiner.handle(lags(t0_1=500))
    (report, warm_up) = joiner.handle(full(t0_1=20))
    assert report == ReportShortage(Shortage(tasks(1), 20 << 20, 0, "warm_join_max_bytes"))
    assert warm_up == WarmUp(frozenset())
    (join,) = joiner.handle(lags())
    assert join == JoinGroup("0 tasks are warm, and 1 had no room on the disk", tasks(1) | {TaskId(1, 0)})


def test_state_that_is_only_kept_makes_room_before_an_expected_task_is_left_out() -> None:
    joiner = Joiner(STAGGER_MS)
    joiner.handle(GroupSeen(seen(1).outlook, {TaskId(0, 1): 1_000, TaskId(0, 2): 1_000}))
    joiner.handle(lags(t0_1=0))
    assert joiner.handle(GroupSeen(seen(2).outlook, {TaskId(0, 1): 1_000, TaskId(0, 2): 1_000})) == [
        WarmUp(tasks(1, 2))
    ]
    joiner.handle(lags(t0_1=0, t0_2=900))
    full_disk = DiskMeasured(Disk(10 << 20, 5 << 20, {TaskId(0, 1): 20 << 20, TaskId(0, 2): 2 << 20}))
    assert joiner.handle(full_disk) == [WarmUp(tasks(2))]
    (report, warm_up) = joiner.handle(full_disk)
    assert isinstance(report, ReportShortage)
    assert warm_up == WarmUp(frozenset())
