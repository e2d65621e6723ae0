"""A group's records become rows of placements, members and balance, whatever the batches and the dialect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kstreams_assign.errors import StateError
from kstreams_assign.group.dialects import APACHE, KIP441
from kstreams_assign.history.derive import derive
from kstreams_assign.history.generate import Name, named_records
from kstreams_assign.history.lives import KINDS, play
from kstreams_assign.history.reading import Assignments
from kstreams_assign.history.records import EndOffset
from kstreams_assign.history.tables import COLUMNS
from kstreams_assign.wire import (
    ConsumerAssignment,
    ConsumerSubscription,
    GroupMetadata,
    StoredMember,
    decode_assignment,
    encode_consumer_assignment,
    encode_consumer_subscription,
    encode_group_metadata,
)
from tests.history.groups import (
    GROUP,
    JAVA,
    OURS,
    P1,
    P2,
    TEN_MINUTES,
    RecordedGroup,
    changed,
    columns,
    derived,
    derived_in_parts,
    end_offsets,
    group,
    life_records,
    rows,
    scaled_out,
    scaled_out_template,
)
from tests.wire.golden import blobs, cases

each_life = pytest.mark.parametrize("kind", KINDS, ids=str)


# --- the other tables --------------------------------------------------------------


@each_life
def test_every_active_task_and_every_copy_stands_in_the_placements_as_it_was_given(kind):
    life = play(kind, 12, 8, 3)
    placements = rows(derived(list(named_records(life, Name("fleet", 0, 0)))), "task_placements")
    for event in life.events:
        for member in getattr(event, "members", ()):
            info = decode_assignment(member.answer.user_data)
            mine = [
                row
                for row in placements
                if row["generation"] == event.generation
                and row["process_id"] == str(member.thread.process)
                and row["member_id"].endswith(member.thread.member_id)
            ]
            active = {row["task"] for row in mine if row["role"] == "active"}
            copies = {row["task"] for row in mine if row["role"] != "active"}
            warm = {str(t) for t in info.trailer.warmups.get(member.thread.process, ())}
            assert active == set(map(str, info.active_tasks))
            assert copies == set(map(str, info.standby_tasks))
            assert {row["warmup_known"] for row in mine} <= {kind.ours}
            assert {row["task"] for row in mine if row["role"] == "warmup"} == (warm & copies if kind.ours else set())


def test_a_placement_tells_what_its_process_reported_as_it_joined():
    recorded = scaled_out(JAVA)
    sums = {}
    for row in recorded.rows("task_placements"):
        sums.setdefault(row["generation"], {})[row["process_id"], row["task"]] = row["offset_sum"]
    assert set(sums[1].values()) == {None}
    assert sums[2][str(P1), "0_0"] == -2
    assert 0 in {total for (process, _), total in sums[3].items() if process == str(P2)} or 50_000 in sums[4].values()


def test_a_member_row_has_all_that_the_member_reports():
    recorded = RecordedGroup(group(), OURS)
    recorded.start(P1, endpoint=f"{P1}.example.org:8080", tags={"zone": "a"})
    recorded.rebalance()
    (row,) = recorded.rows("members")
    assert (row["process_id"], row["version"], row["latest_supported_version"]) == (str(P1), 11, 11)
    assert (row["endpoint"], row["tags"]) == (f"{P1}.example.org:8080", [("zone", "a")])
    assert (row["ours"], dict(row["assignors"])["least_movement"] >= 1, len(row["settings_digest"])) == (True, True, 16)
    assert (row["error_code"], row["unreadable"], row["instance_id"]) == (0, None, None)
    assert row["client_id"] == f"{GROUP}-{P1}-StreamThread-1-consumer"


def test_balance_is_counted_in_tasks_a_thread():
    recorded = RecordedGroup(group(partitions=6), OURS)
    recorded.start(P1, threads=2, tags={"zone": "a"})
    recorded.start(P2, tags={"zone": "b"})
    recorded.rebalance()
    by_scope = {(row["scope"], row["name"]): row for row in recorded.rows("balance")}
    assert set(by_scope) == {
        *((scope, None) for scope in ("active", "standby", "all")),
        *(("subtopology", name) for name in "01"),
        ("rack", "zone=a"),
        ("rack", "zone=b"),
    }
    owners = [row["process_id"] for row in recorded.rows("task_placements")]
    shares = sorted([owners.count(str(P1)) / 2, owners.count(str(P2))])
    active = by_scope["active", None]
    assert (active["tasks"], active["least"], active["most"]) == (12, shares[0], shares[1])
    assert active["skew"] == shares[1] - shares[0]
    assert by_scope["rack", "zone=a"]["tasks"] == owners.count(str(P1))
    assert by_scope["standby", None]["tasks"] == 0


def test_tasks_a_thread_are_rounded_up():
    recorded = RecordedGroup(group(partitions=2), OURS)
    recorded.start(P1, threads=3)
    recorded.rebalance()
    row = recorded.rows("balance")[0]
    assert (row["scope"], row["tasks"], row["least"], row["most"], row["skew"]) == ("active", 4, 2, 2, 0.0)


def test_end_offsets_belong_to_generations_within_a_minute():
    recorded = scaled_out()
    times = {row["generation"]: row["time_ms"] for row in recorded.rows("rebalances")}
    end_rows = recorded.rows("end_offsets", end_offsets(times[1] + 59_000))
    assert {row["generation"] for row in end_rows} == {
        n for n, time in times.items() if abs(time - times[1] - 59_000) <= 60_000
    }
    late = max(times)
    assert recorded.rows("end_offsets", end_offsets(times[late] + 61_000)) == []


def test_a_changelog_that_may_be_of_two_subtopologies_has_no_task():
    recorded = scaled_out()
    time_ms = recorded.rows("rebalances")[-1]["time_ms"]
    row = recorded.rows("end_offsets", end_offsets(time_ms))[0]
    assert (row["task"], row["topic"], row["end_offset"], row["begin_offset"]) == (
        "0_0",
        "app-totals-changelog",
        50_000,
        0,
    )
    recorded.played.topology = replace(
        recorded.played.topology, subtopologies=recorded.played.topology.subtopologies * 2
    )
    two = RecordedGroup(recorded.played, JAVA)
    two.rebalance(TEN_MINUTES)
    two.rebalance(TEN_MINUTES)
    two.rebalance(TEN_MINUTES)
    time_ms = two.rows("rebalances")[-1]["time_ms"]
    assert {row["task"] for row in two.rows("end_offsets", [EndOffset("app-x-changelog", 0, 1, 0, time_ms)])} == {None}


def test_a_changelog_of_another_size_than_the_one_subtopology_with_state_has_no_task():
    """An earlier version of the application left it behind."""
    recorded = scaled_out()
    time_ms = recorded.rows("rebalances")[-1]["time_ms"]
    left_behind = [EndOffset("app-old-changelog", partition, 1, 0, time_ms) for partition in range(8)]
    ends = recorded.rows("end_offsets", [*end_offsets(time_ms), *left_behind])
    tasks = {topic: [row["task"] for row in ends if row["topic"] == topic] for topic in {row["topic"] for row in ends}}
    assert {*tasks["app-totals-changelog"]} == {"0_0", "0_1", "0_2", "0_3"}
    assert {*tasks["app-old-changelog"]} == {None}


def test_tasks_that_the_application_no_longer_has_do_not_count_for_the_size_of_a_changelog():
    recorded = RecordedGroup(group(JAVA, partitions=8), JAVA)
    recorded.start(P1)
    recorded.rebalance()
    recorded.played.stop(P1)
    recorded.rebalance()
    recorded.played.counts = {"orders": 4, "clicks": 4}
    recorded.start(P2)
    recorded.rebalance()
    recorded.rebalance(TEN_MINUTES)
    ends = recorded.rows("end_offsets", end_offsets(recorded.rows("rebalances")[-1]["time_ms"]))
    assert [row["task"] for row in ends] == ["0_0", "0_1", "0_2", "0_3"]


@pytest.mark.parametrize("sampled", range(1, 5))
def test_tasks_that_a_rebalance_withholds_count_for_the_size_of_a_changelog(sampled):
    recorded = scaled_out()
    rebalances = recorded.rows("rebalances")
    active = [row["offsets_offset"] for row in recorded.rows("task_placements") if row["role"] == "active"]
    assert min(map(active.count, {row["offsets_offset"] for row in rebalances})) < 4, "none is withheld"
    ends = recorded.rows("end_offsets", end_offsets(rebalances[sampled - 1]["time_ms"]))
    of_generation = [row["task"] for row in ends if row["generation"] == sampled]
    expected = ["0_0", "0_1", "0_2", "0_3"] if sampled > 1 else [None] * 4
    assert of_generation == expected, "a task is known to have state when it is reported"


def test_a_members_damaged_assignment_leaves_the_tasks_of_changelogs_known():
    recorded = scaled_out()
    last, records = recorded.rows("rebalances")[-1], recorded.records()
    at = last["offsets_offset"]
    records[at] = changed(records[at], members=lambda member: replace(member, assignment=b"\0\1"))
    ends = rows(derived(records, ends=end_offsets(last["time_ms"])), "end_offsets")
    of_generation = [row["task"] for row in ends if row["generation"] == last["generation"]]
    assert of_generation == ["0_0", "0_1", "0_2", "0_3"]


@pytest.mark.parametrize(("partitions", "warm"), [(None, True), (8, None)])
def test_a_left_behind_changelog_makes_no_warm_move_cold(partitions, warm):
    """The task moves to a process with a standby; one changelog of unknown task leaves the size of its state open."""
    recorded = RecordedGroup(group(JAVA, stateless=False, num_standby_replicas=1), JAVA)
    recorded.start(P1, P2)
    recorded.settle()
    recorded.rebalance(TEN_MINUTES)
    recorded.played.stop(P2)
    recorded.rebalance()
    recorded.commit()
    time_ms = recorded.rows("rebalances")[-1]["time_ms"]
    left_behind = [EndOffset("app-old-changelog", n, 1_000_000, 0, time_ms) for n in range(partitions or 0)]
    moved = recorded.rows("movements", [*end_offsets(time_ms), *left_behind])
    assert [row["warm"] for row in moved] == [warm, warm]


# --- batches ------------------------------------------------------------------------


@each_life
@pytest.mark.parametrize("size", [1, 7])
def test_where_one_batch_ends_makes_no_difference(kind, size):
    records = life_records(kind)
    whole_state, whole = derive(None, columns(records))
    state, parts = derived_in_parts(records, size)
    assert {name: rows(parts, name) for name in COLUMNS} == {name: rows(whole, name) for name in COLUMNS}
    assert state == whole_state
    assert len(rows(whole, "rebalances")) == 12


@each_life
def test_every_column_of_every_table_is_of_one_length(kind):
    tables = derived(life_records(kind))
    assert {name: tuple(table) for name, table in tables.items()} == COLUMNS
    assert all(len({len(column) for column in table.values()}) == 1 for table in tables.values())


def test_a_state_of_another_release_is_refused():
    state, _ = derive(None, columns(scaled_out().records()))
    with pytest.raises(StateError, match="another release"):
        derive(state.replace(b'"format":3', b'"format":2'), columns([]))


# --- bytes that Java wrote, and the dialect ---------------------------------------------


@pytest.mark.parametrize("said", cases("subscription"), ids=lambda case: f"v{case['request']['version']}")
@pytest.mark.parametrize("form", ["hex", "ours"])
def test_what_java_wrote_stands_in_the_members(said, form):
    expected = said["java_reads"]
    assignment = encode_consumer_assignment(ConsumerAssignment(1, (), bytes.fromhex(cases("assignment")[0]["hex"])))
    subscription = encode_consumer_subscription(ConsumerSubscription(1, ("t",), bytes.fromhex(said[form])))
    member = StoredMember("m", "c", "/h", 1, subscription, assignment)
    value = encode_group_metadata(GroupMetadata(4, "consumer", 1, "stream", "m", (member,)))
    record = scaled_out_template()._replace(value=value)
    (row,) = rows(derived([record]), "members")
    assert (row["process_id"], row["version"], row["endpoint"]) == (
        expected["process_id"],
        expected["version"],
        expected["user_end_point"],
    )
    assert dict(row["tags"]) == expected["client_tags"]
    assert row["ours"] is (form == "ours")


def test_sharing_what_assignments_end_with_reads_them_as_they_are_read_one_by_one():
    everything = blobs("assignment")
    for kind in KINDS:
        life = play(kind, 12, 4, 1)
        for event in life.events:
            everything += [member.answer.user_data for member in getattr(event, "members", ())]
    shared = Assignments(APACHE)
    for data in (*everything, *reversed(everything)):
        read, alone = shared.read(data), decode_assignment(data)
        assert read.own.active == tuple(map(str, alone.active_tasks))
        assert read.own.standby == {str(task): inputs for task, inputs in alone.standby_tasks.items()}
        assert (
            read.common.version,
            read.common.error_code,
            read.common.next_rebalance_ms,
            read.common.trailer,
        ) == (
            alone.version,
            alone.error_code,
            alone.next_rebalance_ms,
            alone.trailer,
        )


def test_a_group_that_speaks_the_text_of_kip_441_is_read_in_its_dialect():
    recorded = RecordedGroup(group(), OURS)
    recorded.played.dialect = KIP441
    recorded.start(P1, P2)
    recorded.rebalance()
    value = GroupMetadata(4, "consumer", 1, "kip441", "m-1", tuple(map(kip_member, recorded.events[0].members)))
    record = scaled_out_template()._replace(value=encode_group_metadata(value))
    tables = derived([record])
    (row,) = rows(tables, "rebalances")
    assert (row["protocol"], row["members"], row["processes"], row["assignor"]) == ("kip441", 2, 2, "least_movement")
    assert {row["version"] for row in rows(tables, "members")} == {7}
    assert {row["offset_sum"] for row in rows(tables, "task_placements")} == {None}
    assert rows(tables, "quarantine") == []


def kip_member(member):
    said = ConsumerSubscription(1, member.joined.topics, member.joined.user_data, member.joined.owned)
    given = ConsumerAssignment(1, member.answer.partitions, member.answer.user_data)
    client, name = member.thread.client_id, member.thread.member_id
    return StoredMember(name, client, "/h", 1, encode_consumer_subscription(said), encode_consumer_assignment(given))
