"""Why generations came about, read from the bytes that the real leader wrote for played groups."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kstreams_assign.history.derive import derive
from kstreams_assign.wire import (
    ConsumerSubscription,
    decode_assignment,
    decode_consumer_assignment,
    decode_consumer_subscription,
    decode_subscription,
    encode_assignment,
    encode_consumer_assignment,
    encode_consumer_subscription,
    encode_subscription,
)
from tests.history.groups import (
    JAVA,
    OURS,
    P1,
    P2,
    P3,
    TEN_MINUTES,
    RecordedGroup,
    changed,
    columns,
    derived,
    group,
    rows,
)

each_kind = pytest.mark.parametrize("kind", [OURS, JAVA], ids=["ours", "java"])


def causes(recorded: RecordedGroup):
    return [(row["cause"], row["confidence"]) for row in recorded.rows("rebalances")]


def settled(kind, *processes, **settings) -> RecordedGroup:
    recorded = RecordedGroup(group(kind, **settings), kind)
    recorded.start(*processes)
    recorded.rebalance()
    return recorded


@each_kind
def test_nothing_is_known_of_what_was_before_the_first_generation_seen(kind):
    (row,) = settled(kind, P1).rows("rebalances")
    assert (row["cause"], row["confidence"]) == ("first", "certain")
    assert (row["joined"], row["gone"], row["owner_changes"], row["adopted"]) == (None, None, None, None)


@each_kind
def test_a_process_that_is_new_joined(kind):
    recorded = settled(kind, P1)
    recorded.start(P2)
    recorded.rebalance(TEN_MINUTES)
    row = recorded.rows("rebalances")[-1]
    assert (row["cause"], row["confidence"], row["joined"], row["gone"]) == ("join", "certain", [str(P2)], [])
    assert str(P2) in row["evidence"]


@each_kind
def test_a_process_that_is_not_there_left(kind):
    recorded = settled(kind, P1, P2)
    recorded.played.stop(P2)
    recorded.rebalance(TEN_MINUTES)
    row = recorded.rows("rebalances")[-1]
    assert (row["cause"], row["confidence"], row["joined"], row["gone"]) == ("leave", "certain", [], [str(P2)])


@each_kind
def test_one_for_another_is_a_replacement(kind):
    recorded = settled(kind, P1, P2)
    recorded.played.stop(P2)
    recorded.start(P3)
    recorded.rebalance(TEN_MINUTES)
    row = recorded.rows("rebalances")[-1]
    assert (row["cause"], row["joined"], row["gone"]) == ("replace", [str(P3)], [str(P2)])


@each_kind
def test_a_process_that_comes_back_as_another_member_was_restarted(kind):
    recorded = settled(kind, P1, P2)
    recorded.start(P2)
    recorded.rebalance(TEN_MINUTES)
    row = recorded.rows("rebalances")[-1]
    assert (row["cause"], row["joined"], row["gone"]) == ("replace", [], [])
    assert "restarted" in row["evidence"]


def test_another_thread_of_a_process_is_another_member():
    recorded = settled(OURS, P1, P2)
    threads = recorded.played.processes[P2].threads
    threads.append(threads[0]._replace(number=2))
    recorded.rebalance(TEN_MINUTES)
    stopped = threads.pop()
    del recorded.played.processes[P2].adopted[stopped]
    recorded.rebalance(TEN_MINUTES)
    *_, more, fewer = recorded.rows("rebalances")
    assert (more["cause"], more["joined"]) == ("join", [])
    assert "another thread" in more["evidence"]
    assert (fewer["cause"], fewer["gone"]) == ("leave", [])
    assert "a thread of a process that stays" in fewer["evidence"]


@each_kind
def test_the_generation_that_gives_out_what_was_held_back_is_a_follow_up(kind):
    recorded = settled(kind, P1)
    recorded.start(P2)
    recorded.settle()
    followed = [row for row in recorded.rows("rebalances") if row["cause"] == "follow_up"]
    assert followed
    assert {row["confidence"] for row in followed} == {"certain"}
    assert sum(row["owner_changes"] for row in followed) > 0


@each_kind
def test_what_the_first_generation_seen_has_held_back_is_no_new_input(kind):
    """As at the beginning of a compacted topic."""
    recorded = settled(kind, P1)
    recorded.start(P2)
    recorded.settle()
    _, *seen = recorded.records()
    first, second, *_ = rows(derived(seen), "rebalances")
    assert (first["cause"], second["generation"]) == ("first", 3)
    assert (second["cause"], second["confidence"]) == ("follow_up", "certain")


@each_kind
def test_a_partition_that_is_new_after_the_first_generation_seen_is_a_change_of_topics(kind):
    recorded = settled(kind, P1)
    recorded.start(P2)
    recorded.rebalance()
    recorded.played.counts["clicks"] += 1
    recorded.settle()
    _, *seen = recorded.records()
    row = rows(derived(seen), "rebalances")[1]
    assert row["cause"] == "topic_change"
    assert row["evidence"].startswith("input partitions clicks-4 are new")


def test_a_state_of_an_earlier_release_lacks_what_was_held_back():
    recorded = settled(JAVA, P1)
    recorded.rebalance(TEN_MINUTES)
    first, second = recorded.records()
    state = json.loads(derive(None, columns([first]))[0])
    del state["last"]["revoked"]
    _, tables = derive(json.dumps(state).encode(), columns([second], 1))
    assert [row["cause"] for row in rows(tables, "rebalances")] == ["rejoin"]


@each_kind
def test_a_generation_at_the_time_that_was_asked_for_is_a_probe(kind):
    recorded = settled(kind, P1, stateless=False)
    recorded.start(P2)
    recorded.settle()
    probes = [row for row in recorded.rows("rebalances") if row["cause"] == "probe"]
    assert probes
    assert {row["confidence"] for row in probes} == {"certain"}


@each_kind
def test_the_leader_is_seen_to_ask_and_to_ask_no_more(kind):
    recorded = settled(kind, P1)
    recorded.start(P2)
    recorded.settle()
    before, joined, *_, last = recorded.rows("rebalances")
    assert (before["probing"], joined["probing"], last["probing"]) == (False, True, False)
    assert before["next_rebalance_ms"] is None
    assert joined["next_rebalance_ms"] == 0
    probed = [row["next_rebalance_ms"] for row in recorded.rows("rebalances") if row["next_rebalance_ms"]]
    assert all(time > joined["time_ms"] + TEN_MINUTES - 60_000 for time in probed)


def waiting(kind) -> RecordedGroup:
    """A group whose next rebalance is a probe, because a copy has not caught up."""
    recorded = settled(kind, P1, stateless=False)
    recorded.start(P2)
    recorded.rebalance(TEN_MINUTES)
    while recorded.played.withheld:
        recorded.rebalance(offsets_per_s=0)
    assert recorded.played.probe_ms is not None
    return recorded


def test_a_probe_that_comes_much_later_is_only_likely():
    recorded = waiting(JAVA)
    recorded.rebalance(TEN_MINUTES + 300_000)
    assert causes(recorded)[-1] == ("probe", "likely")


def test_a_leader_of_ours_may_ask_before_the_time():
    recorded = waiting(OURS)
    recorded.rebalance(30_000)
    assert causes(recorded)[-1] == ("probe", "likely")


def test_a_java_leader_does_not_ask_before_the_time_so_it_is_a_guess():
    recorded = waiting(JAVA)
    recorded.rebalance(30_000)
    row = recorded.rows("rebalances")[-1]
    assert (row["cause"], row["confidence"]) == ("rejoin", "guess")


def test_who_joins_when_a_probe_is_due_too_is_the_likely_cause():
    recorded = waiting(JAVA)
    recorded.start(P3)
    recorded.rebalance(recorded.played.probe_ms - recorded.played.now_ms + 500)
    row = recorded.rows("rebalances")[-1]
    assert (row["cause"], row["confidence"]) == ("join", "likely")
    assert "asked for a rebalance at" in row["evidence"]


@each_kind
def test_new_input_partitions_are_a_change_of_topics(kind):
    recorded = settled(kind, P1)
    recorded.played.counts["clicks"] += 1
    recorded.rebalance(TEN_MINUTES)
    row = recorded.rows("rebalances")[-1]
    assert (row["cause"], row["confidence"]) == ("topic_change", "certain")
    assert "clicks-4" in row["evidence"]


def test_a_topic_that_is_subscribed_to_besides_is_a_change_of_topics():
    recorded = settled(JAVA, P1)
    recorded.rebalance(TEN_MINUTES)
    *before, last = recorded.records()

    def subscribed(member):
        said = decode_consumer_subscription(member.subscription)
        more = replace(said, topics=(*said.topics, "payments"))
        return replace(member, subscription=encode_consumer_subscription(more))

    row = rows(derived([*before, changed(last, members=subscribed)]), "rebalances")[-1]
    assert (row["cause"], row["confidence"]) == ("topic_change", "likely")
    assert "+payments" in row["evidence"]


def test_a_static_member_that_comes_back_rejoined():
    recorded = settled(JAVA, P1, P2)
    recorded.rebalance(TEN_MINUTES)
    first, second = recorded.records()
    static = changed(first, members=lambda m: replace(m, group_instance_id=f"i-{m.client_host}"))
    rejoined = changed(
        second,
        leader="another",
        members=lambda m: replace(m, group_instance_id=f"i-{m.client_host}", member_id=f"{m.member_id}-again"),
    )
    row = rows(derived([static, rejoined]), "rebalances")[-1]
    assert (row["cause"], row["confidence"], row["joined"], row["gone"]) == ("rejoin", "certain", [], [])
    assert "it led" in row["evidence"]


def test_another_leader_beside_the_old_one_is_a_change_of_leader():
    recorded = settled(JAVA, P1, P2)
    recorded.rebalance(TEN_MINUTES)
    first, second = recorded.records()
    other = recorded.events[-1].members[1].thread.member_id
    row = rows(derived([first, changed(second, leader=f"app-{other}")]), "rebalances")[-1]
    assert (row["cause"], row["confidence"]) == ("leader_change", "likely")
    assert row["leader_process"] == str(P2)


def test_who_says_something_else_of_itself_rejoined():
    recorded = settled(JAVA, P1)
    recorded.rebalance(TEN_MINUTES)
    first, second = recorded.records()

    def moved(member):
        said = decode_consumer_subscription(member.subscription)
        info = replace(decode_subscription(said.user_data), user_end_point="elsewhere:1")
        said = replace(said, user_data=encode_subscription(info))
        return replace(member, subscription=encode_consumer_subscription(said))

    row = rows(derived([first, changed(second, members=moved)]), "rebalances")[-1]
    assert (row["cause"], row["confidence"]) == ("rejoin", "likely")


def with_assignment(**fields):
    """A function of a member: its AssignmentInfo with other fields."""

    def other(member):
        given = decode_consumer_assignment(member.assignment)
        info = replace(decode_assignment(given.user_data), **fields)
        return replace(member, assignment=encode_consumer_assignment(replace(given, user_data=encode_assignment(info))))

    return other


def test_after_an_error_of_the_leader_members_rejoin():
    recorded = settled(JAVA, P1)
    recorded.rebalance(TEN_MINUTES)
    first, second = recorded.records()
    row = rows(derived([changed(first, members=with_assignment(error_code=3)), second]), "rebalances")[-1]
    assert (row["cause"], row["confidence"]) == ("rejoin", "likely")
    assert "ASSIGNMENT_ERROR" in row["evidence"]


@each_kind
def test_a_group_that_everybody_left_is_empty_and_joined_again(kind):
    recorded = settled(kind, P1, P2)
    recorded.played.stop(P1)
    recorded.played.stop(P2)
    recorded.rebalance(TEN_MINUTES)
    recorded.start(P3)
    recorded.rebalance(TEN_MINUTES)
    _, empty, returned = recorded.rows("rebalances")
    assert (empty["cause"], empty["state"], empty["gone"]) == ("empty", "empty", [str(P1), str(P2)])
    assert (empty["members"], empty["leader"], empty["protocol"]) == (0, None, None)
    assert (returned["cause"], returned["joined"], returned["adopted"]) == ("join", [str(P3)], 8)
    assert "empty group" in returned["evidence"]


def test_generations_that_left_no_record_make_the_cause_less_sure():
    recorded = settled(OURS, P1)
    recorded.start(P2)
    recorded.rebalance(TEN_MINUTES)
    first, second = recorded.records()
    row = rows(derived([first, changed(second, generation=7)]), "rebalances")[-1]
    assert (row["cause"], row["confidence"]) == ("join", "likely")
    assert "5 generations between left no record" in row["evidence"]


def test_without_any_trace_and_with_records_missing_the_cause_is_unknown():
    recorded = settled(JAVA, P1)
    recorded.rebalance(TEN_MINUTES)
    first, second = recorded.records()
    row = rows(derived([first, changed(second, generation=7)]), "rebalances")[-1]
    assert (row["cause"], row["confidence"]) == (None, None)


def test_versions_that_cannot_ask_leave_the_cause_unknown():
    recorded = settled(JAVA, P1)
    recorded.rebalance(TEN_MINUTES)
    old = with_assignment(version=6, commonly_supported_version=6)
    records = [changed(record, members=old) for record in recorded.records()]
    first, second = rows(derived(records), "rebalances")
    assert (first["probing"], second["probing"], second["cause"]) == (None, None, None)


def test_an_unreadable_member_leaves_the_cause_unknown():
    recorded = settled(JAVA, P1, P2)
    recorded.rebalance(TEN_MINUTES)
    first, second = recorded.records()
    nonsense = encode_consumer_subscription(ConsumerSubscription(1, ("orders", "clicks"), b"\0\0\0\x63"))
    assert rows(derived([first, second]), "rebalances")[-1]["cause"] == "rejoin"
    spoilt = changed(second, members=lambda m: replace(m, subscription=nonsense) if str(P2) in m.client_id else m)
    row = rows(derived([first, spoilt]), "rebalances")[-1]
    assert (row["cause"], row["joined"], row["gone"]) == (None, [], [])


def test_a_member_that_can_be_read_again_has_neither_left_nor_joined():
    recorded = settled(JAVA, P1, P2)
    for _ in range(3):
        recorded.rebalance(TEN_MINUTES)
    first, *spoilt, last = recorded.records()
    nonsense = encode_consumer_subscription(ConsumerSubscription(1, ("orders", "clicks"), b"\0\0\0\x63"))
    spoilt = [
        changed(record, members=lambda m: replace(m, subscription=nonsense) if str(P2) in m.client_id else m)
        for record in spoilt
    ]
    changes = [(row["joined"], row["gone"]) for row in rows(derived([first, *spoilt, last]), "rebalances")]
    assert changes == [(None, None), ([], []), ([], []), ([], [])]
