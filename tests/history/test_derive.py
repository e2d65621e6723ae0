"""A group's records become rows: movements with their gaps, placements, balance; strange records become counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kstreams_assign.errors import StateError
from kstreams_assign.group.dialects import APACHE, KIP441
from kstreams_assign.history.derive import derive
from kstreams_assign.history.generate import Name, named_records
from kstreams_assign.history.idle import COMMITTED_WITHIN_MS
from kstreams_assign.history.lives import KINDS, play
from kstreams_assign.history.reading import Assignments
from kstreams_assign.history.records import EndOffset, Kind, key_of
from kstreams_assign.history.tables import COLUMNS
from kstreams_assign.model import TaskId
from kstreams_assign.wire import (
    ConsumerAssignment,
    ConsumerSubscription,
    GroupMember,
    GroupMetadata,
    decode_assignment,
    decode_consumer_assignment,
    encode_consumer_assignment,
    encode_consumer_subscription,
    encode_group_metadata,
)
from tests.history.groups import (
    A_SECOND,
    GROUP,
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
    derived_in_parts,
    end_offsets,
    group,
    life_records,
    rows,
    scaled_out,
    scaled_out_template,
)
from tests.wire.golden import blobs, cases

each_kind = pytest.mark.parametrize("kind", [OURS, JAVA], ids=["ours", "java"])
each_life = pytest.mark.parametrize("kind", KINDS, ids=str)


# --- movements -------------------------------------------------------------------


@each_kind
def test_a_task_that_moves_with_a_copy_there_is_planned_and_warm(kind):
    recorded = scaled_out(kind)
    moved = recorded.rows("movements")
    assert [row["task"] for row in moved] == sorted({row["task"] for row in moved})
    assert len(moved) == 2
    for row in moved:
        assert (row["from_process"], row["to_process"]) == (str(P1), str(P2))
        assert (row["planned"], row["warm"]) == (True, True)
        assert row["held_ms"] > 0


@each_kind
def test_owner_changes_are_the_planned_movements_and_adoptions_the_others(kind):
    recorded = scaled_out(kind)
    recorded.played.stop(P1)
    recorded.rebalance(TEN_MINUTES)
    recorded.commit()
    changes, moved = recorded.rows("rebalances"), recorded.rows("movements")
    assert sum(row["owner_changes"] or 0 for row in changes) == sum(row["planned"] for row in moved) == 2
    assert sum(row["adopted"] or 0 for row in changes) == sum(not row["planned"] for row in moved) == 2


def test_the_gap_is_from_the_old_owners_last_commit_to_the_new_owners_first():
    recorded = RecordedGroup(group(JAVA, stateless=False, partitions=1), JAVA)
    recorded.start(P1)
    recorded.rebalance()
    recorded.rebalance()
    recorded.commit(after_ms=100)
    recorded.commit(after_ms=700)
    recorded.played.stop(P1)
    recorded.start(P2)
    recorded.rebalance(after_ms=5_000)
    recorded.commit(after_ms=250)
    recorded.commit(after_ms=1_000)
    (row,) = recorded.rows("movements")
    assert (row["gap_ms"], row["planned"], row["warm"], row["held_ms"]) == (5_250, False, False, None)


def test_a_copy_is_held_since_the_first_generation_that_gave_it():
    recorded = RecordedGroup(group(JAVA, stateless=False, partitions=1, num_standby_replicas=1), JAVA)
    recorded.start(P1)
    recorded.rebalance()
    recorded.start(P2)
    recorded.rebalance(TEN_MINUTES)
    recorded.rebalance(3_000)
    recorded.rebalance(4_000)
    recorded.played.stop(P1)
    recorded.rebalance(5_000)
    recorded.commit()
    assert [row["held_ms"] for row in recorded.rows("movements")] == [12_000]


def test_partitions_are_paired_with_tasks_in_sorted_order_whatever_order_they_came_in():
    recorded = RecordedGroup(group(JAVA, partitions=1), JAVA)
    recorded.start(P1)
    recorded.rebalance()
    recorded.commit()
    recorded.played.stop(P1)
    recorded.start(P2)
    recorded.rebalance(after_ms=5_000)
    recorded.commit()

    def reversed_topics(member):
        given = decode_consumer_assignment(member.assignment)
        return replace(
            member,
            assignment=encode_consumer_assignment(replace(given, assigned_partitions=given.assigned_partitions[::-1])),
        )

    records = [
        changed(record, members=reversed_topics) if key_of(record.key).kind is Kind.GROUP_METADATA else record
        for record in recorded.records()
        if key_of(record.key).topic != "clicks"
    ]
    assert [(row["task"], row["gap_ms"]) for row in rows(derived(records), "movements")] == [("0_0", 5_100)]


def test_a_commit_from_before_the_old_owner_had_the_task_does_not_count():
    recorded = RecordedGroup(group(JAVA, stateless=False, partitions=1), JAVA)
    for process in (P1, P2, P3):
        recorded.start(process)
        recorded.rebalance(after_ms=5_000)
        if process != P2:
            recorded.commit()
        recorded.played.stop(process)
    first, second = recorded.rows("movements")
    assert (first["to_process"], first["gap_ms"]) == (str(P2), None)
    assert (second["from_process"], second["to_process"], second["gap_ms"]) == (str(P2), str(P3), None)


def test_a_movement_waits_for_its_first_commit_and_is_written_once():
    recorded = RecordedGroup(group(JAVA, stateless=False, partitions=1), JAVA)
    recorded.start(P1)
    recorded.rebalance()
    recorded.commit()
    recorded.played.stop(P1)
    recorded.start(P2)
    recorded.rebalance(after_ms=5_000)
    records = recorded.records()
    assert rows(derived(records), "movements") == []
    recorded.commit()
    state, before = derive(None, columns(records))
    _, after = derive(state, columns(recorded.records()[len(records) :], len(records)))
    assert [row["gap_ms"] for row in rows(after, "movements")] == [5_100]
    assert rows(before, "movements") == []


def test_a_task_without_input_is_written_without_a_gap_after_ten_minutes():
    recorded = RecordedGroup(group(JAVA, stateless=False, partitions=2), JAVA)
    recorded.start(P1)
    recorded.rebalance()
    recorded.played.stop(P1)
    recorded.start(P2)
    recorded.rebalance(after_ms=5_000)
    recorded.rebalance(after_ms=TEN_MINUTES)
    assert recorded.rows("movements") == []
    recorded.rebalance(after_ms=1)
    assert [row["gap_ms"] for row in recorded.rows("movements")] == [None, None]


# --- a silence without input is no gap ---------------------------------------------


def handed_on(*, idle_ms: int, stop: bool, partitions: int = 1, busy: tuple[int, ...] = ()):
    """The first process commits, is quiet for ``idle_ms`` but for tasks ``busy``; the second one goes on with all."""
    played = RecordedGroup(group(JAVA, stateless=False, partitions=partitions), JAVA)
    played.start(P1)
    played.rebalance()
    played.rebalance()
    played.commit()
    if busy:
        played.commit(after_ms=idle_ms, only=busy)
        idle_ms = 1_000
    if stop:
        played.played.stop(P1)
    played.start(P2)
    played.rebalance(after_ms=idle_ms)
    return played


def gaps(played) -> dict[str, int | None]:
    return {row["task"]: row["gap_ms"] for row in played.rows("movements")}


REMOVED_MS = 300_000
"""How long a played member may be silent between two polls (``generate``)."""


@pytest.mark.parametrize(
    ("idle_ms", "gap_ms"),
    [
        (REMOVED_MS + COMMITTED_WITHIN_MS, REMOVED_MS + COMMITTED_WITHIN_MS + 100),
        (REMOVED_MS + COMMITTED_WITHIN_MS + 1, None),
    ],
)
def test_before_the_broker_could_have_removed_it_a_silent_owner_had_no_input(idle_ms, gap_ms):
    played = handed_on(idle_ms=idle_ms, stop=True)
    played.commit()
    assert gaps(played) == {"0_0": gap_ms}


@pytest.mark.parametrize(
    ("idle_ms", "gap_ms"), [(COMMITTED_WITHIN_MS, COMMITTED_WITHIN_MS + 1_100), (COMMITTED_WITHIN_MS + 1, None)]
)
def test_an_owner_that_commits_other_tasks_had_no_input_of_this_one(idle_ms, gap_ms):
    played = handed_on(idle_ms=idle_ms, stop=True, partitions=2, busy=(1,))
    played.commit()
    assert gaps(played) == {"0_0": gap_ms, "0_1": 1_100}


@pytest.mark.parametrize("busy", [True, False])
def test_an_owner_that_stays_a_member_had_no_input_where_it_did_not_commit_before_the_move(busy):
    played = RecordedGroup(group(JAVA, stateless=False), JAVA)
    played.start(P1)
    played.rebalance()
    played.commit()
    played.start(P2)
    played.rebalance()
    while played.played.withheld or played.played.probe_ms is not None:
        due_ms = A_SECOND if played.played.withheld else played.played.probe_ms - played.played.now_ms + 500
        if busy:
            played.commit(after_ms=due_ms - 500)
        played.rebalance(500 if busy else due_ms)
    played.commit()
    assert len(gaps(played)) == 2
    assert all((gap is not None) == busy for gap in gaps(played).values())


def test_a_new_owner_with_the_state_that_commits_other_tasks_has_no_input_of_this_one():
    """Task 0_0 moves to a process with its standby, which goes on with its own task 0_1."""
    played = RecordedGroup(group(JAVA, stateless=False, partitions=2, num_standby_replicas=1), JAVA)
    played.start(P1, P2)
    played.rebalance()
    played.rebalance(TEN_MINUTES)
    played.commit()
    stopped, heir = (played.played.owners()[TaskId(0, n)] for n in (0, 1))
    played.played.stop(stopped)
    played.rebalance(after_ms=5_000)
    for _ in range(4):
        played.commit(after_ms=20_000, only=(1,))
    played.commit()
    ends = end_offsets(played.events[-7].time_ms + 1_000, partitions=2)
    (row,) = [row for row in played.rows("movements", ends) if row["to_process"] == str(heir) and not row["planned"]]
    assert (row["task"], row["warm"], row["gap_ms"]) == ("0_0", True, None)


def test_a_cold_owner_may_be_restoring_so_its_silence_is_a_gap():
    played = handed_on(idle_ms=5_000, stop=True, partitions=2)
    for _ in range(4):
        played.commit(after_ms=20_000, only=(1,))
    played.commit()
    assert gaps(played) == {"0_0": 85_100, "0_1": 25_000}


# --- the end of waiting ------------------------------------------------------------


def test_the_end_of_the_group_tells_the_movements_that_still_wait():
    recorded = RecordedGroup(group(JAVA, stateless=False, partitions=1), JAVA)
    recorded.start(P1)
    recorded.rebalance()
    recorded.played.stop(P1)
    recorded.start(P2)
    recorded.rebalance(after_ms=5_000)
    *records, last = recorded.records()
    deleted = rows(derived([*records, last, last._replace(value=None)]), "movements")
    assert [(row["to_process"], row["gap_ms"]) for row in deleted] == [(str(P2), None)]


def test_a_stateless_task_is_neither_warm_nor_cold():
    recorded = RecordedGroup(group(JAVA), JAVA)
    recorded.start(P1)
    recorded.rebalance()
    recorded.played.stop(P1)
    recorded.start(P2)
    recorded.rebalance(after_ms=5_000)
    recorded.rebalance(after_ms=TEN_MINUTES + 1)
    assert {row["task"][0]: row["warm"] for row in recorded.rows("movements")} == {"0": None, "1": None}
    recorded.played.stop(P2)
    recorded.start(P3)
    recorded.rebalance(after_ms=TEN_MINUTES)
    recorded.commit()
    later = [row for row in recorded.rows("movements") if row["to_process"] == str(P3)]
    assert {row["task"][0]: row["warm"] for row in later} == {"0": False, "1": None}


def took_over_with(copy_at: int, end: int | None) -> dict:
    """The movement to a process whose standby was at ``copy_at`` as it joined, the changelog ending at ``end``."""
    recorded = RecordedGroup(group(JAVA, stateless=False, partitions=1, num_standby_replicas=1), JAVA)
    recorded.start(P1, P2)
    recorded.rebalance()
    recorded.rebalance(TEN_MINUTES)
    (owner,) = recorded.played.owners().values()
    heir = P1 if owner == P2 else P2
    recorded.played.stop(owner)
    recorded.played.processes[heir].positions.update(dict.fromkeys(recorded.played.processes[heir].positions, copy_at))
    recorded.rebalance(TEN_MINUTES, offsets_per_s=0)
    recorded.commit()
    ends = [] if end is None else end_offsets(recorded.events[-2].time_ms + 1_000, end, partitions=1)
    (row,) = recorded.rows("movements", ends)
    assert (row["planned"], row["to_process"]) == (False, str(heir))
    return row


@pytest.mark.parametrize(
    ("copy_at", "end", "warm"),
    [
        (50_000, 50_000, True),
        (40_000, 50_000, True),
        (39_999, 50_000, False),
        (50_000, 20_000, False),
        (50, None, None),
    ],
)
def test_a_copy_is_warm_within_ten_thousand_offsets_of_the_sampled_end(copy_at, end, warm):
    assert took_over_with(copy_at, end)["warm"] is warm


@pytest.mark.parametrize(("begin", "end", "warm"), [(0, 0, True), (70, 70, True), (0, 1, False), (70, 90, False)])
def test_a_task_whose_changelog_is_empty_does_not_move_cold(begin, end, warm):
    played = handed_on(idle_ms=5_000, stop=True)
    played.commit()
    ends = [EndOffset("app-totals-changelog", 0, end, begin, played.events[-2].time_ms)]
    assert [row["warm"] for row in played.rows("movements", ends)] == [warm]
    assert [row["warm"] for row in played.rows("movements")] == [False], "without a sample its size is unknown"


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
        derive(state.replace(b'"format":2', b'"format":1'), columns([]))


# --- bytes that Java wrote, and the dialect ---------------------------------------------


@pytest.mark.parametrize("said", cases("subscription"), ids=lambda case: f"v{case['request']['version']}")
@pytest.mark.parametrize("form", ["hex", "ours"])
def test_what_java_wrote_stands_in_the_members(said, form):
    expected = said["java_reads"]
    assignment = encode_consumer_assignment(ConsumerAssignment(1, (), bytes.fromhex(cases("assignment")[0]["hex"])))
    subscription = encode_consumer_subscription(ConsumerSubscription(1, ("t",), bytes.fromhex(said[form])))
    member = GroupMember("m", "c", "/h", 1, subscription, assignment)
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
    return GroupMember(name, client, "/h", 1, encode_consumer_subscription(said), encode_consumer_assignment(given))
