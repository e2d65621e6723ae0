"""Where the history of a streams group begins and ends: other groups of the name, a topic copied, cut or compacted."""

from __future__ import annotations

from random import Random

import pytest

from kstreams_assign.history.derive import derive
from kstreams_assign.history.records import Kind, key_of
from kstreams_assign.history.tables import COLUMNS
from kstreams_assign.wire import GroupMetadata, GroupMetadataKey, encode_group_metadata, encode_offsets_key
from kstreams_assign.wire.streams_records import CURRENT_MEMBER, GROUP, TARGET
from tests.history.groups import JAVA, RecordedGroup, group, rows, scaled_out
from tests.history.groups import P1 as CLASSIC_PROCESS
from tests.history.streams_coordinator import (
    NAME,
    A,
    B,
    C,
    Coordinator,
    Record,
    columns,
    derived,
    two_members,
)


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
    tables = derived(sorted(last.values()))
    (rebalance,) = rows(tables, "rebalances")
    assert rebalance["offsets_offset"] == coordinator.records[-1].offset, "it waits for the one that is known last"
    found = rows(tables, "members")
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


def test_a_group_that_changes_its_protocol_is_another_group_each_time():
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


def test_a_streams_group_ends_a_classic_one_whose_deletion_left_no_record():
    """The classic group's movements, which wait for a commit, are written without a gap."""
    generations = [raw for raw in scaled_out().records() if key_of(raw.key).kind is Kind.GROUP_METADATA]
    key = encode_offsets_key(GroupMetadataKey(NAME))
    before = [Record(n, raw.time_ms, key, raw.value) for n, raw in enumerate(generations)]
    coordinator, _, _ = two_members()
    first = coordinator.records[0]._replace(offset=1_000, time_ms=before[-1].time_ms)
    assert rows(derived(before), "movements") == []
    found = rows(derived([*before, first]), "movements")
    assert found
    assert {row["gap_ms"] for row in found} == {None}


def test_a_classic_generation_ends_a_streams_group_whose_deletion_left_no_record():
    coordinator, _, second = two_members()
    coordinator.join(C)  # its rebalance is under way
    classic = RecordedGroup(group(JAVA), JAVA)
    classic.start(CLASSIC_PROCESS)
    classic.rebalance()
    key = encode_offsets_key(GroupMetadataKey(NAME))
    last = Record(10_000, coordinator.now_ms + 1, key, classic.records()[0].value)
    tables = derived([*coordinator.records, last])
    found = [(row["generation"], row["state"], row["cause"]) for row in rows(tables, "rebalances")]
    assert found[-2:] == [(3, "reconciling", "join"), (1, "stable", "first")]
    assert {row["to_process"] for row in rows(tables, "movements")} >= {coordinator.members[second].process}


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
