"""Who is about to join a streams group: the same order for all, and no announcement that lasts for ever."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.engine.joiners import ASSIGNED_MS, OPEN_MS, REPEAT_MS, VALID_MAX_MS, VALID_MS, Joiners
from kstreams_assign.group.streams_outlook import Newcomer
from kstreams_assign.wire.join_messages import JoinAnnounced, Stage

ME = Newcomer("m", "pm")


def said(name: str, since_ms: int, stage: Stage = Stage.RESTORING, *, is_alone: bool = False) -> JoinAnnounced:
    return JoinAnnounced(name, f"p{name}", since_ms, stage, VALID_MS, is_alone=is_alone)


def names(joiners: Joiners, now_ms: int) -> list[str]:
    return [each.member_id for each in joiners.order(now_ms)]


messages = st.builds(
    JoinAnnounced,
    st.sampled_from("abm"),
    st.just("p"),
    st.integers(0, 3),
    st.sampled_from(Stage),
    st.sampled_from([-1, 0, 900, VALID_MS, 1 << 70]),
    st.booleans(),
)


@given(st.lists(st.tuples(messages, st.integers(0, 20_000))))
def test_the_order_is_that_of_the_last_announcements_that_hold(log: list[tuple[JoinAnnounced, int]]) -> None:
    """The twin reads the whole log again: the last message of each other counts, while it holds."""
    joiners, now_ms = Joiners(ME, 2), 0
    heard: list[tuple[JoinAnnounced, int]] = []
    for message, passed_ms in log:
        now_ms += passed_ms
        joiners.hear(message, now_ms)
        heard.append((message, now_ms))
        last = {each.member_id: (each, at_ms) for each, at_ms in heard if each.member_id != ME.member_id}
        present = [
            each
            for each, at_ms in last.values()
            if each.stage in (Stage.RESTORING, Stage.WARM) and now_ms < at_ms + min(each.valid_ms, VALID_MAX_MS)
        ]
        everyone = [*present, said("m", 2)]
        expected = sorted(everyone, key=lambda each: (not each.is_alone, each.since_ms, each.member_id))
        assert names(joiners, now_ms) == [each.member_id for each in expected]


def test_each_of_them_sees_the_same_order() -> None:
    orders = []
    for name, since_ms in (("a", 30), ("b", 20), ("c", 20)):
        joiners = Joiners(Newcomer(name, f"p{name}"), since_ms)
        for message in (said("c", 20), said("a", 30), said("b", 20)):
            joiners.hear(message, 0)
        orders.append(names(joiners, 0))
    assert orders == [["b", "c", "a"]] * 3


def test_one_that_is_alone_comes_first_and_counts_on_no_other() -> None:
    joiners = Joiners(ME, 1)
    joiners.hear(said("z", 9, is_alone=True), 0)
    assert names(joiners, 0) == ["z", "m"]
    joiners.is_alone = True
    assert names(joiners, 0) == ["m"]
    assert joiners.count(0) == 0


def test_a_killed_one_is_forgotten() -> None:
    joiners = Joiners(ME, 2)
    joiners.hear(said("a", 1), 0)
    assert names(joiners, VALID_MS - 1) == ["a", "m"]
    assert names(joiners, VALID_MS) == ["m"]


def test_it_announces_news_at_once_and_repeats_it() -> None:
    joiners = Joiners(ME, 2)
    assert joiners.due(Stage.RESTORING, 0) == said("m", 2)
    assert joiners.due(Stage.RESTORING, REPEAT_MS - 1) is None
    assert joiners.due(Stage.RESTORING, REPEAT_MS) == said("m", 2)
    assert joiners.due(Stage.WARM, REPEAT_MS) == said("m", 2, Stage.WARM)
    joiners.hear(said("a", 1), REPEAT_MS)
    assert joiners.due(Stage.WARM, REPEAT_MS) is not None, "the new one does not know it yet"
    joiners.hear(said("a", 1), REPEAT_MS)
    assert joiners.due(Stage.WARM, REPEAT_MS) is None
    assert joiners.first_said_ms == 0


def test_the_interval_is_open_from_the_assignment_to_one_that_joined() -> None:
    joiners = Joiners(ME, 2)
    joiners.hear(said("a", 1), 0)
    assert not joiners.is_open(0)
    joiners.hear(said("a", 1, Stage.JOINED), 100)
    assert joiners.count(100) == 1
    assert joiners.is_open(100)
    assert not joiners.is_first_assigned
    joiners.see({"a"}, set(), 600)
    assert joiners.is_open(600 + OPEN_MS - 1), "the brokers assign it later"
    joiners.see({"a"}, {"a"}, 1_200)
    assert joiners.is_first_assigned
    assert not joiners.is_open(600 + OPEN_MS)
    assert joiners.count(600 + OPEN_MS) == 0


def test_one_that_the_brokers_never_assign_is_not_waited_for() -> None:
    joiners = Joiners(ME, 2)
    joiners.hear(said("a", 1), 0)
    joiners.see({"a"}, set(), 0)
    joiners.see({"a"}, set(), ASSIGNED_MS - 1)
    assert joiners.is_open(ASSIGNED_MS)
    joiners.see({"a"}, set(), ASSIGNED_MS)
    assert not joiners.is_open(ASSIGNED_MS - 1 + OPEN_MS)


def test_one_that_joined_without_a_word_is_seen_in_the_group() -> None:
    joiners = Joiners(ME, 2)
    joiners.hear(said("a", 1), 0)
    joiners.see({"a", "x"}, {"a", "x"}, 10)
    assert names(joiners, 10) == ["m"]
    assert joiners.is_open(10)
    assert joiners.is_first_assigned


def test_a_stranger_that_joined_opens_nothing() -> None:
    joiners = Joiners(ME, 2)
    joiners.hear(said("a", 1, Stage.JOINED), 0)
    joiners.hear(said("b", 1), 0)
    joiners.hear(said("b", 1, Stage.GONE), 0)
    assert not joiners.is_open(0)
    assert names(joiners, 0) == ["m"]


def test_it_reads_its_own_announcement_and_not_that_of_an_earlier_process() -> None:
    joiners = Joiners(ME, 2)
    joiners.hear(said("m", 1), 0)
    assert joiners.first_heard_ms is None
    joiners.hear(said("m", 2), 3)
    joiners.hear(said("m", 2), 4)
    assert joiners.first_heard_ms == 3
    assert names(joiners, 4) == ["m"]
