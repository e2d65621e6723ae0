"""What the rows of a streams group say."""

from __future__ import annotations

from random import Random

import pytest

from kstreams_assign.history.records import EndOffset
from tests.history.groups import rows
from tests.history.streams_coordinator import (
    CHANGELOG,
    STATEFUL,
    STATELESS,
    TASKS,
    A,
    B,
    C,
    Coordinator,
    Tasks,
    derived,
    two_members,
)
from tests.history.streams_twin import expected

# --- what the rows say ----------------------------------------------------------------


def causes(coordinator: Coordinator) -> list[tuple[int, str | None, str | None]]:
    found = rows(derived(coordinator.records), "rebalances")
    return [(row["generation"], row["cause"], row["confidence"]) for row in found]


def test_joins_leaves_and_the_empty_group_are_causes():
    coordinator, first, second = two_members()
    coordinator.remove(second)
    coordinator.settle()
    thread = coordinator.join(A)
    coordinator.settle()
    coordinator.remove(thread)
    coordinator.settle()
    coordinator.remove(first)
    coordinator.join(C)
    coordinator.settle()
    assert causes(coordinator) == [
        (1, "first", "certain"),
        (2, "join", "certain"),
        (3, "leave", "certain"),
        (4, "join", "certain"),
        (5, "leave", "certain"),
        (6, "empty", "certain"),
        (7, "join", "certain"),
    ]
    found = rows(derived(coordinator.records), "rebalances")
    assert [(row["joined"], row["gone"]) for row in found] == [
        (None, None),
        ([B], []),
        ([], [B]),
        ([], []),
        ([], []),
        ([], [A]),
        ([C], []),
    ]
    assert "(another thread of a process that was there)" in found[3]["evidence"]
    assert "(a thread of a process that stays)" in found[4]["evidence"]


def test_a_member_that_came_back_as_another_was_replaced():
    coordinator, _, second = two_members()
    coordinator.remove(second)
    coordinator.join(B)
    coordinator.settle()
    assert causes(coordinator)[-1] == (4, "replace", "certain")
    last = rows(derived(coordinator.records), "rebalances")[-1]
    assert (last["joined"], last["gone"]) == ([], [])
    assert f"{B} came back as another member, so it was restarted" in last["evidence"]


def test_topics_topologies_settings_and_what_a_member_says_of_itself_are_causes():
    coordinator, first, _ = two_members()
    coordinator.metadata_hash = 2
    coordinator.bump()
    coordinator.settle()
    coordinator.declare()
    coordinator.bump()
    coordinator.settle()
    coordinator.settings = {"num.standby.replicas": "1"}
    coordinator.bump()
    coordinator.settle()
    coordinator.describe(first, endpoint="elsewhere.example.org")
    coordinator.bump()
    coordinator.settle()
    coordinator.bump()
    coordinator.settle()
    assert causes(coordinator)[2:] == [
        (3, "topic_change", "likely"),
        (4, "topic_change", "certain"),
        (5, None, None),
        (6, "rejoin", "likely"),
        (7, None, None),
    ]
    evidence = [row["evidence"] for row in rows(derived(coordinator.records), "rebalances")]
    assert "settings of the group changed: num.standby.replicas None -> 1" in evidence[4]
    assert "no record says why" in evidence[6]


def test_a_rebalance_lasts_from_its_epoch_to_the_last_member():
    coordinator, _, _ = two_members()
    last = rows(derived(coordinator.records), "rebalances")[-1]
    assert (last["protocol"], last["state"], last["leader"], last["assignor"]) == ("streams", "stable", None, None)
    assert last["time_ms"] - last["began_ms"] > 2_000
    assert last["time_ms"] == coordinator.records[-1].time_ms


def test_a_rebalance_that_the_next_one_overtook_is_marked():
    coordinator, first, _ = two_members()
    coordinator.join(C)
    coordinator.bump()
    coordinator.beat(first)
    coordinator.settle()
    found = rows(derived(coordinator.records), "rebalances")
    assert [(row["generation"], row["state"]) for row in found] == [
        (1, "stable"),
        (2, "stable"),
        (3, "reconciling"),
        (4, "stable"),
    ]
    overtaken = "the next assignment came before all members had this one"
    assert [overtaken in row["evidence"] for row in found] == [False, False, True, False]


def test_a_rebalance_does_not_wait_for_a_member_that_left():
    coordinator = Coordinator(Random(4))
    first = coordinator.join(A)
    coordinator.settle()
    second = coordinator.join(B)
    coordinator.assigning = False
    coordinator.remove(second)
    for _ in range(3):
        coordinator.beat(first)
    found = rows(derived(coordinator.records), "rebalances")
    assert [(row["generation"], row["state"], row["members"]) for row in found] == [(1, "stable", 1), (2, "stable", 2)]


def test_members_are_as_they_said_of_themselves():
    coordinator, first, second = two_members()
    found = [row for row in rows(derived(coordinator.records), "members") if row["generation"] == 2]
    assert [(row["member_id"], row["process_id"], row["client_id"]) for row in found] == [
        (first, A, f"client-{first}"),
        (second, B, f"client-{second}"),
    ]
    assert (found[0]["endpoint"], found[0]["tags"]) == ("a.example.org:8080", [("zone", "x")])
    assert {row["offset_sums"] for row in found} == {None}, "version 0 of the protocol has no positions"


def test_tasks_are_balanced_by_process_subtopology_and_rack():
    coordinator, _, _ = two_members()
    found = [row for row in rows(derived(coordinator.records), "balance") if row["generation"] == 2]
    assert {(row["scope"], row["name"]): row["tasks"] for row in found} == {
        ("active", None): 6,
        ("standby", None): 3,
        ("all", None): 9,
        ("subtopology", STATEFUL): 3,
        ("subtopology", STATELESS): 3,
        ("rack", "zone=x"): next(row["tasks"] for row in found if row["scope"] == "rack"),
    }


def test_a_task_is_warm_only_where_its_changelogs_are_known_to_be_empty():
    coordinator, _, _ = two_members()
    ends = [EndOffset(CHANGELOG, partition, partition, 0, coordinator.now_ms) for partition in range(3)]
    coordinator.commit("member-1")
    coordinator.commit("member-2")
    found = rows(derived(coordinator.records, ends), "movements")
    warm = {row["task"]: row["warm"] for row in found}
    assert warm
    assert warm == {task: True if task == "0_0" else None for task in warm}
    sampled = rows(derived(coordinator.records, ends), "end_offsets")
    assert {(row["generation"], row["task"], row["end_offset"]) for row in sampled} == {
        (generation, f"0_{partition}", partition) for generation in (1, 2) for partition in range(3)
    }


def test_a_gap_goes_from_the_old_owners_last_commit_to_the_new_owners_first():
    coordinator = Coordinator(Random(4))
    first = coordinator.join(A)
    coordinator.settle()
    coordinator.commit(first)
    committed_ms = coordinator.now_ms
    coordinator.wait(4_000)
    second = coordinator.join(B)
    coordinator.settle()
    coordinator.wait(500)
    coordinator.commit(first)
    coordinator.commit(second)
    found = rows(derived(coordinator.records), "movements")
    moved = {f"{subtopology}_{n}" for subtopology, n in coordinator.members[second].assigned.active}
    assert {row["task"] for row in found} == moved
    for row in found:
        assert (row["from_process"], row["to_process"], row["planned"]) == (A, B, True)
        assert committed_ms < row["released_ms"] < row["taken_ms"] < coordinator.now_ms
        assert row["gap_ms"] is None or row["gap_ms"] == coordinator.now_ms - committed_ms
    assert any(row["gap_ms"] for row in found)
    clock_ms = committed_ms - 1
    behind = [
        record._replace(time_ms=clock_ms) if record.time_ms == coordinator.now_ms else record
        for record in coordinator.records
    ]
    assert [row["gap_ms"] for row in rows(derived(behind), "movements")] == [None] * len(found), "a clock set back"


def test_a_process_that_keeps_its_member_id_takes_over_from_the_one_before():
    coordinator = Coordinator(Random(4))
    first = coordinator.join(A)
    coordinator.settle()
    coordinator.describe(first, process=C)
    coordinator.bump()
    coordinator.settle()
    coordinator.commit(first)
    tables = derived(coordinator.records)
    found = rows(tables, "movements")
    assert len(found) == len(TASKS)
    assert {(row["from_process"], row["to_process"], row["planned"], row["generation"]) for row in found} == {
        (A, C, False, 2)
    }
    assert [(row["owner_changes"], row["adopted"]) for row in rows(tables, "rebalances")] == [(None, None), (0, 6)]


def test_a_copy_counts_as_held_until_the_task_is_taken_or_a_rebalance_ends():
    """A process gives up its standby before it gets the task, in records of their own."""
    coordinator = Coordinator(Random(1))
    first = coordinator.join(A)
    second = coordinator.join(B)
    coordinator.settle()
    standbys = {f"0_{partition}" for _, partition in coordinator.members[second].assigned.standby}
    assert standbys
    since_ms = coordinator.now_ms
    coordinator.wait(30_000)
    coordinator.remove(first)
    coordinator.settle()
    coordinator.commit(second)
    held = {row["task"]: row["held_ms"] for row in rows(derived(coordinator.records), "movements") if row["held_ms"]}
    assert held.keys() == standbys
    assert all(30_000 <= ms <= coordinator.now_ms - since_ms + 1_000 for ms in held.values())


def test_a_clock_that_is_set_back_makes_no_copy_held_for_less_than_no_time():
    coordinator = Coordinator(Random(1))
    first = coordinator.join(A)
    second = coordinator.join(B)
    coordinator.settle()
    standbys = {f"0_{partition}" for _, partition in coordinator.members[second].assigned.standby}
    coordinator.wait(-30_000)
    coordinator.remove(first)
    coordinator.settle()
    coordinator.commit(second)
    found = rows(derived(coordinator.records), "movements")
    assert {row["task"]: row["held_ms"] for row in found if row["held_ms"] is not None} == dict.fromkeys(standbys, 0)
    by_twin = {(row[2], row[6]) for row in expected(coordinator.records)["movements"]}
    assert by_twin == {(row["task"], row["held_ms"]) for row in found}


def test_a_copy_that_was_given_up_in_an_earlier_rebalance_does_not_count():
    everything, standby = Tasks(frozenset(TASKS)), Tasks(standby=frozenset(TASKS[:1]))
    coordinator = Coordinator(
        Random(1), planned=[{"member-1": everything}, {"member-1": everything, "member-2": standby}]
    )
    coordinator.join(A)
    coordinator.settle()
    coordinator.join(B)
    coordinator.settle()
    for target in ({"member-1": everything}, {"member-2": everything}):
        coordinator.planned.append(target)
        coordinator.wait(1_000)
        coordinator.bump()
        coordinator.settle()
    coordinator.commit("member-2")
    found = rows(derived(coordinator.records), "movements")
    assert {(row["task"], row["held_ms"]) for row in found} == {(f"{name}_{n}", None) for name, n in TASKS}


@pytest.mark.parametrize(("held", "gap_ms"), [(True, None), (False, 62_200)])
def test_a_process_with_a_copy_that_commits_other_tasks_first_had_no_input_of_this_one(held, gap_ms):
    one, other = TASKS[:2]
    first = Tasks(frozenset(TASKS))
    second = Tasks(standby=frozenset(TASKS[:2])) if held else Tasks()
    coordinator = Coordinator(
        Random(1), planned=[{"member-1": first}, {"member-1": first, "member-2": second}, {"member-2": first}]
    )
    coordinator.join(A)
    coordinator.settle()
    coordinator.join(B)
    coordinator.settle()
    coordinator.commit("member-1")
    coordinator.remove("member-1")
    coordinator.settle()
    coordinator.wait(62_000)
    coordinator.commit("member-2", [other])
    coordinator.wait(100)
    coordinator.commit("member-2", [one])
    gaps = {row["task"]: row["gap_ms"] for row in rows(derived(coordinator.records), "movements")}
    assert gaps.keys() == {f"{name}_{n}" for name, n in (one, other)}
    assert gaps[f"{one[0]}_{one[1]}"] == gap_ms


def test_a_movement_behind_the_last_rebalance_belongs_to_it_when_the_group_is_deleted():
    coordinator = Coordinator(Random(4))
    first = coordinator.join(A)
    coordinator.settle()
    coordinator.describe(first, process=C)
    coordinator.delete()
    found = rows(derived(coordinator.records), "movements")
    assert {(row["generation"], row["to_process"], row["gap_ms"]) for row in found} == {(1, C, None)}
    assert len(found) == len(TASKS)
