"""What a group waits for, what comes next, what a loss would cost: in facts, in sentences, in JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from uuid import UUID

import pytest

from kstreams_assign.assign import AssignConfig
from kstreams_assign.model import UNKNOWN_OFFSET_SUM, TaskId, TopicPartition
from kstreams_assign.observe.cluster import ObservedGroup
from kstreams_assign.observe.decoded import decode_group
from kstreams_assign.observe.describe import Move, describe
from kstreams_assign.observe.document import document
from kstreams_assign.observe.lags import stalled
from kstreams_assign.observe.reasons import first, move_list, process_names, reasons, span
from kstreams_assign.observe.settings import settings_of
from kstreams_assign.observe.topology import inferred_topology
from kstreams_assign.wire import AssignmentInfo, ConsumerAssignment, encode_assignment, encode_consumer_assignment
from tests.group.little_group import END, shape
from tests.observe.seen_group import CHANGELOG, SeenGroup, scaled_out, settled

FIRST, SECOND, THIRD = (UUID(int=number) for number in (1, 2, 3))
ACCEPTABLE = {"acceptable_recovery_lag": 100}


def said(group: SeenGroup, **given: object) -> str:
    return "\n".join(reasons(describe(group.observed(**{**ACCEPTABLE, **given}))))


def observed(group: SeenGroup, **changes: object) -> ObservedGroup:
    decoded = decode_group(replace(group.snapshot(), **changes))
    return ObservedGroup(decoded, inferred_topology(decoded), settings_of(decoded, ACCEPTABLE))


def with_position(offset: int) -> SeenGroup:
    """The newcomer of a scale-out tells this of its warm-ups at the next probe."""
    group = scaled_out()
    group.members[SECOND].positions = dict.fromkeys(group.members[SECOND].positions, offset)
    group.rebalance()
    return group


def test_a_scale_out_is_explained():
    text = said(scaled_out())
    assert (
        "the next probing rebalance is due in 10 min at the latest; once the warm-ups have caught up it moves" in text
    )
    assert f"0_1, 0_3 from {FIRST} to {SECOND}, then probes go on" in text
    assert f"0_1 warms up on {SECOND}: at the last join it had nothing of 50,000 offsets of {CHANGELOG}-1" in text
    assert "it may lag 100 at most" in text
    assert "not balanced: tasks per thread differ by more than one" in text
    assert f"losing {FIRST} would cost a restore of 0_0, 0_2, 0_4, 0_5 (up to 200,000 records)" in text
    assert f"losing {FIRST} may cost a restore of 0_1, 0_3" in text


def test_a_task_that_is_restored_although_another_process_has_more_of_it_is_explained():
    """One process has part of six tasks, the other nothing: it has two of them sooner than the first has all six."""
    group = SeenGroup(shape(), {"orders": 6, "clicks": 0}, AssignConfig(acceptable_recovery_lag=100), "least_movement")
    group.add(1).positions = {TaskId(0, partition): 20_000 for partition in range(6)}
    group.add(2)
    group.rebalance()
    assert (
        f"no process had caught up with 0_4, 0_5: {SECOND} restores them, sooner than a process that has more of their "
        "state"
    ) in said(group)
    facts = document(describe(group.observed(**ACCEPTABLE)))
    assert facts["restored_sooner"] == [
        {"task": task, "than": str(FIRST), "on": str(SECOND)} for task in ("0_4", "0_5")
    ]


def test_a_warm_up_that_becomes_a_standby_is_named():
    text = said(scaled_out(members=3, partitions=2, num_standby_replicas=1))
    assert re.search(
        r"once the warm-ups have caught up it keeps as standbys 0_\d on .*, then the group is settled", text
    )


def test_a_settled_group_is_quiet():
    text = said(settled(members=3))
    spread = "the subtopologies run on equal numbers of processes, give or take one"
    assert text.startswith(
        f"no probing rebalance is due\nbalanced: tasks per thread differ by one at most, and {spread}"
    )
    assert "warms up" not in text
    assert "still moves" not in text


@pytest.mark.parametrize(("partitions", "says"), [((1,), "1 task"), ((1, 2), "2 tasks")])
def test_a_balanced_group_in_which_tasks_still_move_is_not_said_to_be_done(partitions: tuple[int, ...], says: str):
    moves = tuple(Move(TaskId(0, partition), FIRST, SECOND) for partition in partitions)
    about = replace(describe(settled(members=2).observed(**ACCEPTABLE)), next_moves=moves)
    assert about.balanced
    (balance,) = (sentence for sentence in reasons(about) if sentence.startswith("balanced: "))
    assert balance.endswith(f"give or take one; the assignor still moves {says}")


def test_a_lag_is_shown_with_changelog_and_process():
    text = said(with_position(40_000))
    assert (
        f"0_3 warms up on {SECOND}: at the last join it lagged 10,000 behind {CHANGELOG}-3; it may lag 100 at most"
        in text
    )


def test_the_member_with_the_replica_is_named_if_the_process_has_several():
    snapshot = scaled_out().snapshot()
    member = snapshot.members[1]
    idle = encode_consumer_assignment(ConsumerAssignment(1, (), encode_assignment(AssignmentInfo(11, 11))))
    twin = replace(member, member_id="member-2b", client_id="thread-2", assignment=idle)
    group = scaled_out()
    text = "\n".join(reasons(describe(observed(group, members=(*snapshot.members, twin)))))
    assert f"0_1 warms up on {SECOND} (client-of-member-2): " in text


def test_an_acceptable_lag_of_zero_is_called_hard_to_reach():
    assert "it may lag 0 at most, which a changelog with writes hardly reaches" in said(
        scaled_out(), acceptable_recovery_lag=0
    )


def test_a_copy_that_has_caught_up_waits_for_the_probe():
    text = said(scaled_out(), acceptable_recovery_lag=END)
    assert f"warmed up, waiting for the next probe: 0_1 on {SECOND}, 0_3 on {SECOND}" in text


def test_java_members_that_warm_up_are_named_too():
    assert f"0_1 warms up on {SECOND}: at the last join it had nothing" in said(scaled_out(ours=False))


def test_a_lag_that_cannot_close_is_reported_and_predicts_no_move():
    about = describe(with_position(END + 1).observed(**ACCEPTABLE))
    assert "cannot catch up: its position 50,001 is beyond the changelog's end 50,000" in "\n".join(reasons(about))
    stuck = {(copy.process, copy.task) for copy in about.waiting if copy.stuck}
    assert stuck == {(SECOND, TaskId(0, 1)), (SECOND, TaskId(0, 3))}
    assert not {move.task for move in about.next_moves} & {task for _, task in stuck}


def test_a_replica_with_an_unknown_position_is_not_called_caught_up():
    group = scaled_out()
    joined = group.joined[1]
    report = group.dialect.read_report(joined.user_data)
    unknown = replace(report, task_offset_sums=dict.fromkeys([TaskId(0, 1), TaskId(0, 3)], UNKNOWN_OFFSET_SUM))
    group.joined[1] = replace(joined, user_data=group.dialect.write_report(unknown))
    about = describe(group.observed(**ACCEPTABLE))
    assert document(about)["processes"][1]["lags"] == {"0_1": None, "0_3": None}
    assert f"0_1 warms up on {SECOND}, which reports no position of it" in "\n".join(reasons(about))
    assert set(about.risks[FIRST]) == {TaskId(0, 1), TaskId(0, 3)}


def test_a_position_that_was_deleted_from_the_changelog_is_reported():
    group = with_position(40_000)
    begins = {TopicPartition(CHANGELOG, partition): 45_000 for partition in range(6)}
    text = "\n".join(reasons(describe(observed(group, begin_offsets=begins))))
    assert "its position 40,000 was deleted from the changelog, which begins at 45,000" in text


def test_a_lag_that_does_not_shrink_from_join_to_join_is_reported():
    group = with_position(40_000)
    before = observed(group)
    group.end += 500
    group.rebalance()
    now = observed(group, generation=8)
    assert [(copy.task, copy.before, copy.after) for copy in stalled(before, now)] == [
        (TaskId(0, 1), 10_000, 10_500),
        (TaskId(0, 3), 10_000, 10_500),
    ]
    assert f"0_1 on {SECOND} does not catch up: it lagged 10,000" in "\n".join(
        reasons(describe(now), stalled(before, now))
    )
    assert stalled(now, now) == []
    group.members[SECOND].positions = dict.fromkeys(group.members[SECOND].positions, 45_000)
    group.rebalance()
    assert stalled(before, observed(group, generation=9)) == []


def test_tasks_between_two_owners_are_named():
    group = scaled_out()
    group.catch_up()
    group.rebalance()
    text = said(group)
    assert f"between two owners until the follow-up rebalance: 0_1 (for {SECOND}), 0_3 (for {SECOND})" in text
    assert "a follow-up rebalance comes at once" in text
    javas = scaled_out(ours=False)
    javas.catch_up()
    javas.rebalance()
    assert "no process runs in this generation: 0_1, 0_3" in said(javas)
    assert "not balanced: some tasks have no owner" in said(javas)
    assert f"a follow-up rebalance comes at once, as far as known with 0_1, 0_3 to {SECOND}" in said(javas)


def test_standbys_that_have_caught_up_make_a_loss_cheap():
    group = settled(members=3, num_standby_replicas=1)
    assert describe(group.observed(**ACCEPTABLE)).restores == {FIRST: (), SECOND: (), THIRD: ()}
    assert any(describe(group.observed(**ACCEPTABLE)).risks.values()), "no member has reported them yet"
    group.rebalance()
    assert not any(describe(group.observed(**ACCEPTABLE)).risks.values())


def test_rebalancing_empty_and_mixed_groups_get_a_sentence():
    group = settled()
    assert reasons(describe(observed(group, state="PreparingRebalance", members=()))) == [
        "the group is in the state PreparingRebalance: its assignment can be read once it is stable"
    ]
    assert reasons(describe(observed(group, state="Empty", protocol="", members=()))) == [
        "the group has no members: no process runs its tasks"
    ]
    mixed = settled(members=3)
    mixed.assignor = "least_movement"
    mixed.members[SECOND].ours = False
    mixed.rebalance()
    assert "members that are not Python members (member-2)" in said(mixed, assignor="least_movement")


def test_racks_are_reported_by_tag():
    group = settled(members=3, num_standby_replicas=1)
    decoded = group.decoded()
    zones = {FIRST: "a", SECOND: "a", THIRD: "b"}
    members = {
        name: replace(member, report=replace(member.report, client_tags={"zone": zones[member.report.process_id]}))
        for name, member in decoded.members.items()
    }
    seen = group.observed()
    (rack,) = describe(replace(seen, decoded=replace(decoded, members=members))).racks
    assert (rack.tag, rack.values) == ("zone", ("a", "b"))
    shared = decoded.processes[0].active & decoded.processes[1].copies
    shared |= decoded.processes[1].active & decoded.processes[0].copies
    assert set(rack.together) == shared
    assert rack.spread == 6 - len(shared)


def test_the_document_has_what_scripts_rely_on():
    group = scaled_out(ours=False)
    facts = json.loads(json.dumps(document(describe(group.observed(**ACCEPTABLE)))))
    keys = {"group", "state", "generation", "leader", "balanced", "probing_due_ms", "processes", "next_moves", "why"}
    assert {*keys, "assumed"} <= facts.keys()
    first, second = facts["processes"]
    assert {"process_id", "endpoint", "ours", "version", "tags", "active", "standby", "warmup", "lags"} <= second.keys()
    assert (facts["probing_due_ms"], second["warmup"], second["ours"]) == (None, None, False)
    assert facts["next_rebalance_ms"] == group.now_ms + 600_000
    assert second["lags"] == {"0_1": END, "0_3": END}
    assert set(first["lags"].values()) == {0}
    assert second["members"][0]["standby"] == ["0_1", "0_3"]
    assert facts["next_moves"] == [
        {"task": "0_1", "from": str(FIRST), "to": str(SECOND)},
        {"task": "0_3", "from": str(FIRST), "to": str(SECOND)},
    ]
    ours = document(describe(scaled_out().observed()))
    assert ours["probing_due_ms"] == 1_600_000
    assert ours["processes"][1]["warmup"] == ["0_1", "0_3"]


def test_names_are_as_short_as_they_can_be():
    near = [UUID("11111111-0000-0000-0000-000000000000"), UUID("11111111-1000-0000-0000-000000000000")]
    assert list(process_names([near[0]]).values()) == ["11111111"]
    assert list(process_names(near).values()) == ["11111111-0", "11111111-1"]


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0 s"), (-5, "0 s"), (59_400, "59 s"), (61_000, "1 min 1 s"), (3_600_000, "1 h"), (90_000_000, "1 d 1 h")],
)
def test_spans_are_shown_in_their_two_largest_units(milliseconds, text):
    assert span(milliseconds) == text


def test_many_moves_are_shown_by_number_and_first_ways():
    names = {UUID(int=number): f"p{number}" for number in range(40)}
    moves = [Move(TaskId(0, number), UUID(int=number), UUID(int=0)) for number in range(1, 10)]
    text = move_list(moves, names)
    assert text.startswith("9 tasks: 0_1 from p1 to p0; ")
    assert text.endswith("0_6 from p6 to p0; and more in 3 other ways")
    assert move_list([Move(TaskId(0, n), None, UUID(int=0)) for n in range(14)], names).endswith(
        "0_11 and 2 more to p0"
    )


def test_many_sentences_of_a_kind_are_cut():
    assert first(list("abcdefgh"), "letters") == list("abcdefgh")
    assert first(list("abcdefghij"), "letters") == [*"abcdefgh", "... and 2 more letters"]


def test_a_member_of_a_later_release_is_named_with_its_version():
    group = settled()
    group.add(3).newest = 12
    group.rebalance()
    about = describe(group.observed())
    assert "member member-3 cannot be read: subscription: speaks version 12, newer than 11" in reasons(about)[0]


def test_a_process_is_shown_with_its_rack_if_all_its_consumers_report_the_same():
    group = settled(members=2)
    next(iter(group.members.values())).rack = "eu-1"
    group.rebalance()
    racks = [process["rack"] for process in document(describe(group.observed()))["processes"]]
    assert sorted(racks, key=str) == [None, "eu-1"]
