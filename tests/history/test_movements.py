"""Moves of tasks between processes become movements: planned or adopted, warm or cold, with their gaps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kstreams_assign.history.derive import derive
from kstreams_assign.history.idle import COMMITTED_WITHIN_MS
from kstreams_assign.history.records import EndOffset, Kind, key_of
from kstreams_assign.model import (
    RUNNING_OFFSET_SUM,
    UNKNOWN_OFFSET_SUM,
    Store,
    SubtopologyShape,
    TaskId,
    TopologyShape,
)
from kstreams_assign.wire import (
    ConsumerSubscription,
    SubscriptionInfo,
    decode_consumer_assignment,
    decode_consumer_subscription,
    decode_group_metadata,
    decode_subscription,
    encode_consumer_assignment,
    encode_consumer_subscription,
    encode_subscription,
)
from tests.history.groups import (
    A_SECOND,
    JAVA,
    OURS,
    P1,
    P2,
    P3,
    TEN_MINUTES,
    RecordedGroup,
    changed,
    columns,
    counted_on,
    derived,
    end_offsets,
    group,
    rows,
    scaled_out,
)

NEWER = encode_consumer_subscription(ConsumerSubscription(1, ("orders",), b"\0\0\0\x0d\0\0\0\x0d"))
"""What a member of a newer release says."""

each_kind = pytest.mark.parametrize("kind", [OURS, JAVA], ids=["ours", "java"])


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


@pytest.mark.parametrize(("set_back_ms", "held_ms"), [(2_999, 2_001), (5_000, 0), (5_001, 0)])
def test_a_clock_that_is_set_back_makes_no_copy_held_for_less_than_no_time(set_back_ms, held_ms):
    recorded = RecordedGroup(group(JAVA, stateless=False, partitions=1, num_standby_replicas=1), JAVA)
    recorded.start(P1)
    recorded.rebalance()
    recorded.start(P2)
    recorded.rebalance(TEN_MINUTES)
    recorded.played.stop(P1)
    recorded.rebalance(5_000)
    recorded.commit()
    *records, moved, commit = recorded.records()
    behind = [record._replace(time_ms=record.time_ms - set_back_ms) for record in (moved, commit)]
    assert [row["held_ms"] for row in rows(derived([*records, *behind]), "movements")] == [held_ms]


def test_partitions_are_paired_with_tasks_in_sorted_order_whatever_order_they_came_in():
    recorded = taken_over(partitions=1, committed=True, stateless=True)
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
    recorded = taken_over(partitions=1, committed=True)
    records = recorded.records()
    assert rows(derived(records), "movements") == []
    recorded.commit()
    state, before = derive(None, columns(records))
    _, after = derive(state, columns(recorded.records()[len(records) :], len(records)))
    assert [row["gap_ms"] for row in rows(after, "movements")] == [5_100]
    assert rows(before, "movements") == []


def taken_over(*, partitions: int, committed: bool = False, stateless: bool = False) -> RecordedGroup:
    """The first process stops, before it commits unless ``committed``. The second one has its tasks, and no commit."""
    recorded = RecordedGroup(group(JAVA, stateless=stateless, partitions=partitions), JAVA)
    recorded.start(P1)
    recorded.rebalance()
    if committed:
        recorded.commit()
    recorded.played.stop(P1)
    recorded.start(P2)
    recorded.rebalance(after_ms=5_000)
    return recorded


def test_a_task_without_input_is_written_without_a_gap_after_ten_minutes():
    recorded = taken_over(partitions=2)
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


SET_BACK_MS = 70_000


def set_back(records, first: int):
    """The records from the index ``first`` on, with the timestamps of a clock that was set back before them."""
    return [
        record if index < first else record._replace(time_ms=record.time_ms - SET_BACK_MS)
        for index, record in enumerate(records)
    ]


def test_the_last_commit_of_two_inputs_is_the_one_behind_the_other_also_where_its_clock_is_set_back():
    topology = TopologyShape((SubtopologyShape(("orders", "clicks"), (Store("totals"),)),))
    recorded = RecordedGroup(replace(group(JAVA, partitions=1), topology=topology), JAVA)
    recorded.start(P1)
    recorded.rebalance()
    recorded.commit()
    recorded.played.stop(P1)
    recorded.start(P2)
    recorded.rebalance(after_ms=5_000)
    recorded.commit()
    kinds = [key_of(record.key).kind for record in recorded.records()]
    assert kinds == [Kind.GROUP_METADATA, *[Kind.OFFSET_COMMIT] * 2] * 2
    (row,) = rows(derived(set_back(recorded.records(), 2)), "movements")
    assert row["gap_ms"] == 5_100


def test_an_owner_that_committed_another_task_before_its_clock_was_set_back_may_have_had_input():
    recorded = RecordedGroup(group(JAVA, stateless=False, partitions=2), JAVA)
    recorded.start(P1)
    recorded.rebalance()
    recorded.commit(only=(1,))
    recorded.commit(only=(0,))
    recorded.played.stop(P1)
    recorded.start(P2)
    recorded.rebalance(after_ms=5_000)
    recorded.commit()
    found = {row["task"]: row["gap_ms"] for row in rows(derived(set_back(recorded.records(), 2)), "movements")}
    assert found == {"0_0": 5_100, "0_1": None}


@pytest.mark.parametrize(
    ("busy", "set_back_before", "gap_ms"),
    [
        pytest.param(False, "the last commit", 66_000 + A_SECOND, id="committed before the move"),
        pytest.param(True, "the first commit", None, id="committed behind the move"),
    ],
)
def test_only_commits_behind_the_move_show_that_a_new_owner_had_no_input(busy, set_back_before, gap_ms):
    """Task 0_0 moves to a process with its standby, which has committed its own task 0_1."""
    recorded = RecordedGroup(group(JAVA, stateless=False, partitions=2, num_standby_replicas=1), JAVA)
    recorded.start(P1, P2)
    recorded.rebalance()
    recorded.rebalance(TEN_MINUTES)
    stopped, heir = (recorded.played.owners()[TaskId(0, n)] for n in (0, 1))
    recorded.commit(only=(1,))
    recorded.commit(only=(0,))
    recorded.played.stop(stopped)
    recorded.rebalance(after_ms=5_000)
    move = len(recorded.records()) - 1
    recorded.commit(after_ms=61_000, only=(1,) if busy else ())
    recorded.commit(after_ms=SET_BACK_MS - 30_000 if busy else A_SECOND, only=(0,))
    records = set_back(recorded.records(), {"the last commit": move - 1, "the first commit": move + 2}[set_back_before])
    found = rows(derived(records, end_offsets(records[move].time_ms, partitions=2)), "movements")
    (row,) = [row for row in found if row["task"] == "0_0"]
    assert (row["to_process"], row["warm"], row["gap_ms"]) == (str(heir), True, gap_ms)


def of_one_owner():
    """A process that has committed its only task."""
    played = RecordedGroup(group(JAVA, stateless=False, partitions=1), JAVA)
    played.start(P1)
    played.rebalance()
    played.rebalance()
    played.commit()
    return played


@pytest.mark.parametrize("empty", [False, True], ids=["at once", "behind an empty generation"])
@pytest.mark.parametrize(
    ("idle_ms", "gap_ms"),
    [
        (REMOVED_MS + COMMITTED_WITHIN_MS, REMOVED_MS + COMMITTED_WITHIN_MS + A_SECOND + 100),
        (REMOVED_MS + COMMITTED_WITHIN_MS + 1, None),
    ],
)
def test_an_owner_that_left_before_had_no_input_while_it_was_there(idle_ms, gap_ms, empty):
    """The generation that is without the owner, and not the one that gives its task out, says until when it lived."""
    played = of_one_owner()
    played.played.stop(P1)
    if empty:
        played.rebalance(after_ms=idle_ms)
    played.start(P2)
    played.rebalance(after_ms=A_SECOND if empty else idle_ms)
    played.commit(after_ms=100 if empty else A_SECOND + 100)
    assert gaps(played) == {"0_0": gap_ms}


def test_a_long_time_without_members_is_a_gap():
    played = of_one_owner()
    played.played.stop(P1)
    played.rebalance(after_ms=A_SECOND)
    played.start(P2)
    played.rebalance(after_ms=3 * REMOVED_MS)
    played.commit()
    assert gaps(played) == {"0_0": A_SECOND + 3 * REMOVED_MS + 100}


def test_an_owner_that_is_there_but_cannot_be_read_has_not_left():
    """It speaks a newer version as its task moves, and again in the generation before."""
    played = of_one_owner()
    played.rebalance()
    played.played.stop(P1)
    played.start(P2)
    played.rebalance(after_ms=COMMITTED_WITHIN_MS)
    played.commit()
    first, second, commit, third, moved, last = played.records()
    newer = changed(third, members=lambda member: replace(member, subscription=NEWER, assignment=b""))
    (unread,) = decode_group_metadata(newer.value).members
    there = changed(moved, members=(*decode_group_metadata(moved.value).members, unread))
    for records, counts in (([first, second, commit, third, moved, last], (0, 1)), ([newer, there, last], (1, 0))):
        tables = derived([first, second, commit, *records[-3:]])
        (row,), rebalance = rows(tables, "movements"), rows(tables, "rebalances")[-1]
        assert (rebalance["owner_changes"], rebalance["adopted"]) == counts
        assert row["planned"] == (counts == (1, 0))
        assert (row["gap_ms"] is None) == row["planned"], "it was alive without input until then"


@pytest.mark.parametrize(("set_back_ms", "gap_ms"), [(5_250, 0), (5_251, None)])
def test_a_clock_that_is_set_back_leaves_a_gap_unknown(set_back_ms, gap_ms):
    played = handed_on(idle_ms=5_000, stop=True)
    played.commit(after_ms=250)
    *records, generation, commit = played.records()
    behind = (record._replace(time_ms=record.time_ms - set_back_ms) for record in (generation, commit))
    assert [row["gap_ms"] for row in rows(derived([*records, *behind]), "movements")] == [gap_ms]


# --- the end of waiting ------------------------------------------------------------


def test_the_end_of_the_group_tells_the_movements_that_still_wait():
    recorded = taken_over(partitions=1)
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


@pytest.mark.parametrize(
    ("version", "total", "warm"),
    [
        (6, RUNNING_OFFSET_SUM, {"0_0": None, "1_0": None}),
        (6, UNKNOWN_OFFSET_SUM, {"0_0": False, "1_0": None}),
        (7, RUNNING_OFFSET_SUM, {"0_0": False, "1_0": False}),
    ],
    ids=["running", "a copy", "running, since version 7"],
)
def test_before_version_7_a_report_of_what_a_member_ran_shows_no_state(version, total, warm):
    """Such a report lists stateless tasks, too; that of a copy shows state."""
    recorded = taken_over(partitions=1, stateless=True)
    recorded.commit()
    first, *others = recorded.records()
    again = reporting(first, version, {TaskId(0, 0): total, TaskId(1, 0): RUNNING_OFFSET_SUM})
    moved = rows(
        derived([first, changed(again, generation=2), *(counted_on(record, 1) for record in others)]), "movements"
    )
    assert {row["task"]: row["warm"] for row in moved} == warm


def reporting(record, version: int, sums):
    """The generation with members that report ``sums`` in this version."""

    def reported(member):
        said = decode_consumer_subscription(member.subscription)
        report = SubscriptionInfo(version, version, decode_subscription(said.user_data).process_id, None, sums)
        subscription = encode_consumer_subscription(replace(said, user_data=encode_subscription(report)))
        return replace(member, subscription=subscription)

    return changed(record, members=reported)


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
