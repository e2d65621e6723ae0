"""When a member that drains leaves a streams group: whom it waits for, how long, and where waiting has no use."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.engine.warm_join import LOOK_INTERVAL_MS, LookFailed
from kstreams_assign.engine.warm_leave import (
    ANSWER_MS,
    FORGET_MS,
    REPEAT_MS,
    STATELESS,
    Announce,
    Effect,
    Event,
    LeaveGroup,
    LeaveSeen,
    LookAtLeave,
    MessageHeard,
    Turned,
    WarmLeave,
)
from kstreams_assign.group.member import Started
from kstreams_assign.group.streams_outlook import LeaveOutlook
from kstreams_assign.model import TaskId
from kstreams_assign.wire.leave_messages import LeaveAnnounced, WarmReported

TIMEOUT_MS, ME, DRAIN = 60_000, "me", "drain-7"
OFFSETS = {TaskId(0, number): 1_000 + number for number in range(9)}


def tasks(*partitions: int) -> frozenset[TaskId]:
    return frozenset(TaskId(0, partition) for partition in partitions)


def seen(away: Mapping[str, str] | None = None, **gains: tuple[int, ...]) -> LeaveSeen:
    state = {member: tasks(*numbers) for member, numbers in gains.items()}
    return LeaveSeen(LeaveOutlook(state, away or {}), OFFSETS)


def answer(member: str, *warm: int, no_room: tuple[int, ...] = (), drain_id: str = DRAIN) -> MessageHeard:
    return MessageHeard(WarmReported(drain_id, member, tasks(*warm), tasks(*no_room)))


def announced(leaves: bool = False, **gains: tuple[int, ...]) -> LeaveAnnounced:
    named = {member: {task: OFFSETS[task] for task in tasks(*numbers)} for member, numbers in gains.items()}
    return LeaveAnnounced(DRAIN, ME, named, leaves)


class Leaver:
    """The machine, with a clock that the test moves."""

    def __init__(self) -> None:
        self.machine = WarmLeave(DRAIN, ME, TIMEOUT_MS)
        self.now_ms = 5_000
        assert self.handle(Started()) == [LookAtLeave(frozenset())]

    def handle(self, event: Event) -> list[Effect]:
        return self.machine.handle(event, self.now_ms)

    def turn(self, after_ms: int = 0) -> list[Effect]:
        self.now_ms += after_ms
        return self.handle(Turned())


def test_it_announces_who_gets_what_and_leaves_once_all_answer_that_it_is_warm() -> None:
    leaver = Leaver()
    assert leaver.handle(seen(a=(1, 2), b=(3,))) == [Announce(announced(a=(1, 2), b=(3,)), is_news=True)]
    leaver.handle(answer("a", 1))
    leaver.handle(answer("b", 3))
    assert leaver.turn() == []
    assert leaver.machine.warm == tasks(1, 3)
    leaver.handle(answer("a", 1, 2))
    assert leaver.turn() == [
        Announce(announced(leaves=True, a=(1, 2), b=(3,)), is_news=False),
        LeaveGroup("3 tasks are warm", tasks(1, 2, 3)),
    ]
    assert leaver.machine.leaves
    assert leaver.turn(TIMEOUT_MS) == [], "it leaves once"


def test_it_looks_again_announces_again_and_follows_the_group() -> None:
    leaver = Leaver()
    leaver.handle(seen(a=(1,)))
    assert leaver.turn(LOOK_INTERVAL_MS) == [LookAtLeave(frozenset())]
    assert leaver.handle(seen(a=(1,))) == [], "nothing has changed"
    assert leaver.turn(REPEAT_MS - LOOK_INTERVAL_MS) == [
        Announce(announced(a=(1,)), is_news=False),
        LookAtLeave(frozenset()),
    ]
    leaver.handle(answer("a", 1))
    assert leaver.handle(seen(a=(2,), b=(1,))) == [Announce(announced(a=(2,), b=(1,)), is_news=True)]
    assert leaver.turn() == [], "what is warm at another member counts nothing"
    leaver.handle(answer("a", 2))
    leaver.handle(answer("b", 1))
    assert isinstance(leaver.turn()[-1], LeaveGroup)


def test_a_member_that_does_not_answer_is_not_waited_for() -> None:
    leaver = Leaver()
    leaver.handle(seen(a=(1,), java=(2, 3)))
    leaver.handle(answer("a", 1))
    leaver.handle(answer("java", 2, 3, drain_id="an earlier drain"))
    assert not any(isinstance(effect, LeaveGroup) for effect in leaver.turn(ANSWER_MS - 1))
    reason = "1 task is warm, and 2 are not: its member has no room or does not answer"
    assert leaver.turn(1)[-1] == LeaveGroup(reason, tasks(1), tasks(2, 3))


def test_a_member_that_comes_late_has_its_own_time_to_answer() -> None:
    leaver = Leaver()
    leaver.handle(seen(a=(1,)))
    leaver.handle(answer("a", 1, 2))
    leaver.now_ms += ANSWER_MS
    leaver.handle(seen(a=(1,), late=(2,)))
    assert not any(isinstance(effect, LeaveGroup) for effect in leaver.turn(ANSWER_MS - 1))
    assert leaver.turn(1)[-1] == LeaveGroup(
        "1 task is warm, and 1 is not: its member has no room or does not answer", tasks(1), tasks(2)
    )


def test_a_task_without_room_is_not_waited_for() -> None:
    leaver = Leaver()
    leaver.handle(seen(a=(1, 2)))
    leaver.handle(answer("a", 1, no_room=(2,)))
    assert leaver.turn()[-1] == LeaveGroup(
        "1 task is warm, and 1 is not: its member has no room or does not answer", tasks(1), tasks(2)
    )


def test_a_member_that_is_away_is_waited_for_until_it_is_back_and_warm() -> None:
    leaver = Leaver()
    leaver.handle(seen(a=(1,), b=(2,)))
    leaver.handle(answer("a", 1))
    leaver.handle(answer("b", 2))
    assert leaver.handle(seen(away={"b": "i2"}, a=(1,), b=(2,))) == [Announce(announced(a=(1,), b=(2,)), is_news=True)]
    assert leaver.machine.warm == tasks(1), "what it has on its disk runs nowhere"
    assert not any(isinstance(effect, LeaveGroup) for effect in leaver.turn(ANSWER_MS))
    assert leaver.handle(seen(away={"b": "i2"}, a=(1,), b=(2,))) == [], "nothing has changed"
    leaver.handle(seen(a=(1,), c=(2,)))
    assert not any(isinstance(effect, LeaveGroup) for effect in leaver.turn(ANSWER_MS - 1)), "it has time to answer"
    leaver.handle(answer("c", 2))
    assert leaver.turn()[-1] == LeaveGroup("2 tasks are warm", tasks(1, 2))


def test_a_member_that_was_away_has_its_own_time_to_answer() -> None:
    leaver = Leaver()
    leaver.handle(seen(away={"a": "i1"}, a=(1,)))
    leaver.turn(ANSWER_MS)
    leaver.handle(seen(a=(1,)))
    assert not any(isinstance(effect, LeaveGroup) for effect in leaver.turn(ANSWER_MS - 1))
    assert isinstance(leaver.turn(1)[-1], LeaveGroup)


def test_a_member_that_is_away_does_not_hold_up_what_its_session_has_ended_for() -> None:
    leaver = Leaver()
    leaver.handle(seen(away={"b": "i2"}, b=(1,)))
    leaver.turn(ANSWER_MS)
    (leave,) = leaver.handle(LeaveSeen(LeaveOutlook(at_once="alone"), {}))
    assert leave == LeaveGroup("alone", is_refused=True)


def test_tasks_without_state_are_not_left_to_a_member_that_is_away() -> None:
    leaver = Leaver()
    assert leaver.handle(seen(away={"b": "i2"})) == [Announce(announced(), is_news=True)]
    repeated = [Announce(announced(), is_news=False), LookAtLeave(frozenset())]
    assert leaver.turn(ANSWER_MS) == repeated, "others that drain know of it by this"
    assert leaver.handle(seen()) == [LeaveGroup(STATELESS)]


def test_a_member_that_stays_away_is_named_when_the_time_is_up() -> None:
    leaver = Leaver()
    leaver.handle(seen(away={"b": "i2"}, a=(1,), b=(2,)))
    leaver.handle(answer("a", 1))
    assert leaver.turn(TIMEOUT_MS)[-1] == LeaveGroup(
        f"not all is warm after warm_join_timeout_ms = {TIMEOUT_MS}, and i2 is away", tasks(1), tasks(2)
    )


def test_it_leaves_at_once_where_waiting_has_no_use() -> None:
    assert Leaver().handle(LeaveSeen(LeaveOutlook(at_once="alone"), {})) == [LeaveGroup("alone", is_refused=True)]
    stateless = Leaver().handle(LeaveSeen(LeaveOutlook(), {}))
    assert stateless == [LeaveGroup(STATELESS)]
    (leave,) = Leaver().handle(LookFailed("not allowed", passing=False))
    assert leave == LeaveGroup("what the others will get is not known: not allowed", is_refused=True)
    java_only = Leaver()
    java_only.handle(seen(java=(1,)))
    assert java_only.turn(ANSWER_MS)[-1] == LeaveGroup(
        "no member that gets its tasks restores them first", frozenset(), tasks(1), is_refused=True
    )


def test_it_asks_again_where_brokers_do_not_answer_and_leaves_in_any_case_when_its_time_is_up() -> None:
    leaver = Leaver()
    assert leaver.handle(LookFailed("no broker answered", passing=True)) == []
    assert leaver.turn(LOOK_INTERVAL_MS) == [LookAtLeave(frozenset())]
    leaver.handle(seen(a=(1, 2)))
    leaver.handle(answer("a", 2))
    leaver.now_ms = 5_000 + TIMEOUT_MS - 1
    assert not any(isinstance(effect, LeaveGroup) for effect in leaver.turn())
    assert leaver.turn(1) == [
        Announce(announced(leaves=True, a=(1, 2)), is_news=False),
        LeaveGroup(f"not all is warm after warm_join_timeout_ms = {TIMEOUT_MS}", tasks(2), tasks(1)),
    ]


def test_members_that_drain_at_the_same_time_know_of_each_other() -> None:
    leaver = Leaver()
    leaver.handle(seen(other=(1,)))
    leaver.handle(MessageHeard(LeaveAnnounced("another drain", "other", {ME: {TaskId(0, 8): 5}})))
    leaver.handle(MessageHeard(announced()))
    assert leaver.turn(LOOK_INTERVAL_MS) == [LookAtLeave(frozenset({"other"}))]
    leaver.now_ms += FORGET_MS
    assert leaver.turn()[-1] == LookAtLeave(frozenset()) or leaver.machine.leaves


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from("abc"), st.sets(st.integers(0, 5), min_size=1), min_size=1),
            st.sampled_from("abc"),
            st.sets(st.integers(0, 5)),
            st.integers(0, ANSWER_MS // 10),
        ),
        max_size=8,
    )
)
def test_it_never_leaves_before_its_time_with_a_cold_task_at_a_member_that_answers(
    steps: list[tuple[dict[str, set[int]], str, set[int], int]],
) -> None:
    """Whatever it sees and hears: when it leaves, the last answer of each member that answered covers its tasks."""
    leaver, last = Leaver(), dict[str, set[int]]()
    for gains, member, warm, after_ms in steps:
        leaver.handle(seen(**{name: tuple(numbers) for name, numbers in gains.items()}))
        leaver.handle(answer(member, *warm))
        last[member] = warm
        for effect in leaver.turn(after_ms):
            if isinstance(effect, LeaveGroup):
                assert all(gains[name] <= last[name] for name in gains.keys() & last.keys())
                return
