"""Strange records become a count, or a row of the quarantine; the others are derived as if they were not there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign.history.derive import derive, derive_strangers
from kstreams_assign.history.fleet import NEEDED
from kstreams_assign.history.lives import KINDS
from kstreams_assign.history.records import Kind, key_of
from kstreams_assign.history.replay import replay
from kstreams_assign.history.tables import COLUMNS
from kstreams_assign.model import TaskId
from kstreams_assign.observe.changes import Alternative
from kstreams_assign.wire import (
    ConsumerSubscription,
    GroupMetadata,
    GroupMetadataKey,
    OffsetCommitKey,
    StoredMember,
    StreamsKey,
    decode_assignment,
    decode_consumer_assignment,
    decode_consumer_subscription,
    decode_subscription,
    encode_assignments,
    encode_consumer_assignment,
    encode_consumer_subscription,
    encode_group_metadata,
    encode_offsets_key,
    encode_streams_key,
    encode_subscription,
)
from kstreams_assign.wire.streams_records import CURRENT_MEMBER
from tests.history.groups import (
    JAVA,
    OURS,
    P1,
    P2,
    TEN_MINUTES,
    RecordedGroup,
    changed,
    columns,
    derived,
    group,
    life_records,
    rows,
    scaled_out,
    scaled_out_template,
)
from tests.samples import examples
from tests.wire.golden import kafka_cases


def counted(records, first_offset=0, state=None):
    _, tables = derive(state, columns(records, first_offset))
    return {row["kind"]: row["records"] for row in rows(tables, "counts")}, tables


def test_records_that_were_there_before_are_duplicates_and_add_nothing():
    records = scaled_out().records()
    state, _ = derive(None, columns(records))
    counts, tables = counted(records, 0, state)
    assert counts == {"duplicate": len(records)}
    assert [name for name in COLUMNS if name != "counts" and rows(tables, name)] == []


def test_an_older_generation_that_comes_again_is_late():
    records = [record for record in scaled_out().records() if key_of(record.key).kind is Kind.GROUP_METADATA]
    counts, tables = counted([*records, records[0]])
    assert counts == {"group_metadata": len(records), "late": 1}
    assert len(rows(tables, "rebalances")) == len(records)


def test_a_group_that_was_deleted_and_created_again_starts_fresh():
    first = RecordedGroup(group(JAVA), JAVA)
    first.start(P1)
    first.rebalance()
    first.rebalance(TEN_MINUTES)
    recreated = RecordedGroup(group(JAVA), JAVA)
    recreated.start(P2)
    recreated.rebalance(after_ms=10 * TEN_MINUTES)
    old, new = first.records(), recreated.records()
    deleted = [old[-1]._replace(value=None)]
    for records in ([*old, *deleted, *new], [*old, *new]):
        rebalances = rows(derived(records), "rebalances")
        assert [(row["generation"], row["cause"]) for row in rebalances][-1] == (1, "first")
        assert rows(derived(records), "movements") == []


def test_tombstones_and_commits_are_counted():
    recorded = scaled_out()
    commit = next(record for record in recorded.records() if key_of(record.key).kind is Kind.OFFSET_COMMIT)
    counts, _ = counted([*recorded.records(), commit._replace(value=None)])
    assert counts["tombstone"] == 1
    assert counts["offset_commit"] > 0


def test_groups_that_are_not_of_kafka_streams_are_counted_and_leave_no_state():
    key = encode_offsets_key(GroupMetadataKey("console"))
    member = StoredMember("m", "c", "/h", 1, b"anything", b"anything")
    plain = encode_group_metadata(GroupMetadata(4, "consumer", 1, "range", "m", (member,)))
    empty = encode_group_metadata(GroupMetadata(4, "", 0))
    template = scaled_out_template()
    records = [template._replace(key=key, value=value) for value in (empty, plain)]
    state, tables = derive(None, columns(records))
    assert (state, rows(tables, "counts")) == (b"", [{"kind": "not_streams", "records": 2}])
    assert rows(tables, "rebalances") == []


def test_a_value_that_is_damaged_is_kept_with_the_reason_and_the_rest_goes_on():
    records = scaled_out().records()
    bad = records[1]._replace(value=b"\0\x09nonsense")
    counts, tables = counted([records[0], bad, *records[1:]])
    (row,) = rows(tables, "quarantine")
    assert (row["kind"], row["key"], row["value"]) == ("damaged_value", bad.key, bad.value)
    assert "9 is not one of" in row["reason"]
    assert counts["damaged_value"] == 1
    assert len(rows(tables, "rebalances")) == len(scaled_out().rows("rebalances"))


@pytest.mark.parametrize("part", ["subscription", "assignment"])
def test_a_members_damaged_user_data_leaves_the_rest_of_its_generation_usable(part):
    recorded = RecordedGroup(group(JAVA), JAVA)
    recorded.start(P1, P2)
    recorded.rebalance()
    (record,) = recorded.records()
    broken = changed(record, members=lambda m: replace(m, **{part: b"\0\1"}) if str(P2) in m.client_id else m)
    counts, tables = counted([broken])
    assert counts == {"damaged_user_data": 1, "group_metadata": 1}
    (bad,) = rows(tables, "quarantine")
    assert (bad["kind"], bad["value"], str(P2) in bad["reason"]) == ("damaged_user_data", b"\0\1", True)
    members = {row["client_id"]: row for row in rows(tables, "members")}
    whole, spoilt = members[f"app-{P1}-StreamThread-1-consumer"], members[f"app-{P2}-StreamThread-1-consumer"]
    assert (whole["unreadable"], whole["process_id"]) == (None, str(P1))
    assert part in spoilt["unreadable"]
    assert spoilt["process_id"] == (None if part == "subscription" else str(P2))
    placed = {row["member_id"] for row in rows(tables, "task_placements")}
    assert (whole["member_id"] in placed, spoilt["member_id"] in placed) == (True, part == "subscription")


def test_a_member_of_a_newer_release_is_no_damage():
    recorded = RecordedGroup(group(JAVA), JAVA)
    recorded.start(P1, P2)
    recorded.rebalance()
    future = encode_consumer_subscription(ConsumerSubscription(1, ("orders",), b"\0\0\0\x0d\0\0\0\x0d"))
    newer = changed(
        recorded.records()[0], members=lambda m: replace(m, subscription=future) if str(P2) in m.client_id else m
    )
    counts, tables = counted([newer])
    row = next(row for row in rows(tables, "members") if row["unreadable"])
    assert counts == {"group_metadata": 1}
    assert (row["version"], row["latest_supported_version"], row["process_id"]) == (13, 13, None)
    assert "newer than" in row["unreadable"]


def test_records_of_newer_protocols_and_damaged_keys_are_counted_apart():
    keys = [bytes.fromhex(case["hex"]) for case in kafka_cases("offsets_key")]
    others = [key for key in keys if key_of(key).kind is Kind.OTHER_PROTOCOL]
    template = scaled_out().records()[0]
    bad = [None, b"", b"\0\2\0\x09x"]
    tables = derive_strangers(columns([template._replace(key=key) for key in (*others, *bad)]))
    assert {row["kind"]: row["records"] for row in rows(tables, "counts")} == {
        "other_protocol": len(others),
        "damaged_key": 3,
    }
    assert len(others) > 10
    assert [row["key"] for row in rows(tables, "quarantine")] == bad
    assert all(row["reason"] for row in rows(tables, "quarantine"))


def test_a_key_tells_its_group_and_partition():
    commit = key_of(encode_offsets_key(OffsetCommitKey("g", "orders", 3)))
    assert commit == (Kind.OFFSET_COMMIT, "g", "orders", 3, "", None)
    key = StreamsKey(CURRENT_MEMBER, "g", "m")
    assert key_of(encode_streams_key(key)) == (Kind.STREAMS_GROUP, "g", "", -1, "", key)
    assert key_of(encode_offsets_key(GroupMetadataKey("g")))[:2] == (Kind.GROUP_METADATA, "g")


@pytest.mark.parametrize("part", ["task_offset_sums", "active_tasks", "standby_tasks"])
@pytest.mark.parametrize("number", ["subtopology", "partition"])
@pytest.mark.parametrize("kind", [OURS, JAVA], ids=["ours", "java"])
def test_a_task_of_a_negative_number_is_damage(kind, number, part):
    recorded = RecordedGroup(group(kind, num_standby_replicas=1), kind)
    recorded.start(P1, P2)
    recorded.rebalance()
    recorded.rebalance()
    *before, record = recorded.records()
    broken = changed(record, members=lambda m: with_bad_task(m, part, number) if str(P2) in m.client_id else m)
    counts, tables = counted([*before, broken])
    assert counts == {"damaged_user_data": 1, "group_metadata": 2}
    (bad,) = rows(tables, "quarantine")
    assert (bad["kind"], str(P2) in bad["reason"], "-1" in bad["reason"]) == ("damaged_user_data", True, True)
    (spoilt,) = (row for row in rows(tables, "members") if row["unreadable"])
    assert ("subscription" if part == "task_offset_sums" else "assignment") in spoilt["unreadable"]
    placed = {row["task"] for row in rows(tables, "task_placements")}
    reported = {task for row in rows(tables, "members") for task, _ in row["offset_sums"] or ()}
    assert placed
    assert all(TaskId.parse(task) for task in placed | reported)


def with_bad_task(member, part, number):
    """The member with another number of one of its tasks, in what it said or in what it got."""

    def spoilt(info):
        tasks = getattr(info, part)
        first, *others = tasks
        names = (first._replace(**{number: -1}), *others)
        return replace(
            info, **{part: names if isinstance(tasks, tuple) else dict(zip(names, tasks.values(), strict=True))}
        )

    if part == "task_offset_sums":
        said = decode_consumer_subscription(member.subscription)
        user_data = encode_subscription(spoilt(decode_subscription(said.user_data)))
        return replace(member, subscription=encode_consumer_subscription(replace(said, user_data=user_data)))
    given = decode_consumer_assignment(member.assignment)
    (user_data,) = encode_assignments([spoilt(decode_assignment(given.user_data))])
    return replace(member, assignment=encode_consumer_assignment(replace(given, user_data=user_data)))


@settings(deadline=None, max_examples=examples(150))
@given(data=st.data())
def test_no_record_whatever_its_bytes_ends_the_derivation(data):
    records = SAMPLE
    at = data.draw(st.integers(0, len(records) - 1))
    value = bytearray(records[at].value)
    for place in data.draw(st.lists(st.integers(0, len(value) - 1), min_size=1, max_size=6)):
        value[place] = data.draw(st.integers(0, 255))
    spoilt = [*records[:at], records[at]._replace(value=bytes(value[: data.draw(st.integers(0, len(value)))]))]
    tables = derived([*spoilt, *records[at + 1 :]])
    for table in tables.values():
        for name, column in table.items():
            for record in column:
                assert not isinstance(record, int) or -(2**63) <= record < 2**63, name
                assert not isinstance(record, str) or record.encode() is not None
    replay({name: rows(tables, name) for name in NEEDED}, [Alternative(assignor="high_availability")])


SAMPLE = [record for record in life_records(KINDS[0], 4, 6) if key_of(record.key).kind is Kind.GROUP_METADATA]
