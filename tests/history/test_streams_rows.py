"""What the rows of a streams group say, and where its history begins."""

from __future__ import annotations

from random import Random

import pytest

from kstreams_assign.history.derive import derive
from kstreams_assign.history.records import EndOffset
from kstreams_assign.history.tables import COLUMNS
from kstreams_assign.wire import GroupMetadata, GroupMetadataKey, encode_group_metadata, encode_offsets_key
from kstreams_assign.wire.streams_records import CURRENT_MEMBER, GROUP, TARGET
from tests.history.groups import JAVA, RecordedGroup, group, rows
from tests.history.groups import P1 as CLASSIC_PROCESS
from tests.history.streams_coordinator import (
    CHANGELOG,
    NAME,
    STATEFUL,
    STATELESS,
    TASKS,
    A,
    B,
    C,
    Coordinator,
    Record,
    columns,
    derived,
)

# --- what the rows say ----------------------------------------------------------------


def causes(coordinator: Coordinator) -> list[tuple[int, str | None, str | None]]:
    found = rows(derived(coordinator.records), "rebalances")
    return [(row["generation"], row["cause"], row["confidence"]) for row in found]


def two_members() -> tuple[Coordinator, str, str]:
    coordinator = Coordinator(Random(4))
    first = coordinator.join(A, tags={"zone": "x"}, endpoint="a.example.org")
    coordinator.settle()
    coordinator.wait(1_000)
    second = coordinator.join(B)
    coordinator.wait(2_000)
    coordinator.settle()
    return coordinator, first, second


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


def test_a_rebalance_that_the_next_one_overtook_is_told_from_those_that_completed():
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


# --- other groups of the name, and the topic copied or compacted --------------------------


def test_records_that_were_there_before_are_duplicates():
    coordinator, _, _ = two_members()
    state, _ = derive(None, columns(coordinator.records))
    _, tables = derive(state, columns(coordinator.records))
    assert rows(tables, "counts") == [{"kind": "duplicate", "records": len(coordinator.records)}]
    assert [name for name in COLUMNS if name != "counts" and rows(tables, name)] == []


def test_each_record_counts_once():
    coordinator, first, second = two_members()
    coordinator.commit(first)
    coordinator.remove(second)
    counts = {row["kind"]: row["records"] for row in rows(derived(coordinator.records), "counts")}
    assert sum(counts.values()) == len(coordinator.records)
    assert (counts["tombstone"], counts.keys()) == (3, {"streams_group", "offset_commit", "tombstone"})


def test_an_older_epoch_that_comes_again_is_late():
    coordinator, _, _ = two_members()
    epoch = next(record for record in coordinator.records if record.key[1] == GROUP)
    tables = derived([*coordinator.records, epoch._replace(offset=10_000)])
    counts = {row["kind"]: row["records"] for row in rows(tables, "counts")}
    assert counts == {"streams_group": len(coordinator.records), "late": 1}
    assert len(rows(tables, "rebalances")) == 2


def test_a_group_whose_deletion_left_no_record_starts_over():
    coordinator, _, _ = two_members()
    again = Coordinator(Random(5), now_ms=coordinator.now_ms + 60_000, joined=2)
    again.join(C)
    again.settle()
    later = [record._replace(offset=record.offset + 20_000) for record in again.records]
    tables = derived([*coordinator.records, *later])
    assert [(row["generation"], row["cause"], row["members"]) for row in rows(tables, "rebalances")] == [
        (1, "first", 1),
        (2, "join", 2),
        (1, "first", 1),
    ]
    assert {row["to_process"] for row in rows(tables, "movements")} == {B}


def test_a_topic_that_was_compacted_has_the_rebalance_under_way():
    """Only the last record of each key: the first member's tasks stand before the target of the second's join."""
    coordinator, _, _ = two_members()
    last = {record.key: record for record in coordinator.records}
    kept = sorted(last.values())
    found = rows(derived(kept), "rebalances")
    assert [(row["generation"], row["cause"], row["members"]) for row in found] == [(2, "first", 2)]
    placed = [row for row in rows(derived(kept), "task_placements") if row["role"] == "active"]
    assert len(placed) == 6


def test_a_member_whose_record_was_written_again_is_in_the_first_rebalance_of_a_compacted_topic():
    coordinator = Coordinator(Random(4))
    first = coordinator.join(A)
    coordinator.settle()
    second = coordinator.join(B)
    coordinator.describe(first)
    coordinator.settle()
    last = {record.key: record for record in coordinator.records}
    found = rows(derived(sorted(last.values())), "members")
    assert {(row["generation"], row["member_id"], row["process_id"]) for row in found} == {
        (2, first, A),
        (2, second, B),
    }


def test_a_target_whose_record_is_damaged_is_known_from_its_members():
    coordinator, _, _ = two_members()
    targets = [record for record in coordinator.records if record.key[1] == TARGET]
    records = [record._replace(value=b"\0\x09") if record is targets[-1] else record for record in coordinator.records]
    tables = derived(records)
    assert [(row["generation"], row["state"], row["cause"]) for row in rows(tables, "rebalances")] == [
        (1, "stable", "first"),
        (2, "stable", "join"),
    ]
    assert [row["reason"] for row in rows(tables, "quarantine")] == [
        "StreamsGroupTargetAssignmentMetadataValue: version at byte 2: 9 is not one of 0"
    ]


def test_a_group_that_changes_its_protocol_begins_anew_each_time():
    classic = RecordedGroup(group(JAVA), JAVA)
    classic.start(CLASSIC_PROCESS)
    classic.rebalance()
    (record,) = classic.records()
    key = encode_offsets_key(GroupMetadataKey(NAME))
    empty = encode_group_metadata(GroupMetadata(4, "consumer", 2))
    before = [Record(n, 1_000 + n, key, value) for n, value in enumerate([record.value, empty, None], start=1)]
    coordinator, first, second = two_members()
    for member in (first, second):
        coordinator.remove(member)
    coordinator.delete()
    streams = [record._replace(offset=record.offset + 100) for record in coordinator.records]
    after = [Record(10_000, coordinator.now_ms + 1, key, record.value)]
    found = rows(derived([*before, *streams, *after]), "rebalances")
    assert [(row["protocol"], row["generation"], row["cause"]) for row in found] == [
        ("stream", 1, "first"),
        (None, 2, "empty"),
        ("streams", 1, "first"),
        ("streams", 2, "join"),
        ("streams", 4, "empty"),
        ("stream", 1, "first"),
    ]


@pytest.mark.parametrize("kind", [GROUP, TARGET, CURRENT_MEMBER])
def test_a_damaged_record_of_a_streams_group_does_not_end_a_classic_one(kind):
    classic = RecordedGroup(group(JAVA), JAVA)
    classic.start(CLASSIC_PROCESS)
    classic.rebalance()
    classic.rebalance()
    coordinator, _, _ = two_members()
    record = next(record for record in coordinator.records if record.key[1] == kind)
    key = encode_offsets_key(GroupMetadataKey(NAME))
    one, two = (Record(n, raw.time_ms, key, raw.value) for n, raw in enumerate(classic.records()))
    bad = record._replace(offset=1, value=b"\0\x09")
    found = rows(derived([one, bad, two._replace(offset=2)]), "rebalances")
    assert [row["generation"] for row in found] == [1, 2]
    assert found[1]["cause"] != "first"
