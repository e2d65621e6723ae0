"""The view says what the tables say: of a group that was really played and derived, and of rows that lack something."""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.history.report.build import (
    GroupRows,
    build_group,
    bunched,
    drawn_until,
    group_line,
    natural,
    task_order,
)
from kstreams_assign.history.report.fleet import build_fleet, span_of
from kstreams_assign.history.report.payload import group_payload
from kstreams_assign.history.report.rows import (
    TABLES,
    Count,
    EndOffset,
    Member,
    Movement,
    Placement,
    Quarantined,
    Rebalance,
    rows_of,
)
from kstreams_assign.history.report.view import Damage, Role, Span
from kstreams_assign.history.tables import COLUMNS
from tests.history.report_data import NOON_MS, Story, derived
from tests.history.streams_coordinator import A, B, Coordinator
from tests.history.streams_coordinator import derived as streams_derived


@cache
def grown_tables():
    """Six tasks with a standby each on two processes; a third joins and is warmed up, then the first leaves."""
    story = Story({"orders": 6}, standbys=1)
    story.start(1)
    story.start(2)
    story.rebalance()
    story.settle(10)
    story.group.wait(300_000)
    story.start(3)
    story.rebalance()
    story.settle(20)
    story.stop(1)
    story.rebalance()
    story.settle(20)
    return derived("orders-app", story)


def rows_in(tables):
    listed = {kind: list(rows_of(kind, tables[name])) for kind, name in TABLES.items()}
    wanted = (Rebalance, Member, Placement, EndOffset, Movement)
    return GroupRows(*(listed[kind] for kind in wanted))


def view_of(tables):
    rows = rows_in(tables)
    return build_group(rows, span_of(rows.rebalances))


def rebalance(generation, offset, time_ms=0, **fields):
    empty = dict.fromkeys(Rebalance._fields)
    own = {"group": "g", "generation": generation, "offsets_partition": 0, "offsets_offset": offset, "time_ms": time_ms}
    return Rebalance(**empty | own | fields)


def placement(offset, task, process="p", role="active", *, warmup_known=True, offset_sum=None):
    return Placement("g", 0, offset, task, role, warmup_known, process, offset_sum)


def view(rebalances, placements=(), ends=(), end_ms=100, members=()):
    rows = GroupRows(rebalances, members=members, placements=placements, ends=ends)
    return build_group(rows, Span(0, end_ms))


def test_every_column_that_the_report_reads_stands_in_the_tables():
    assert {name: set(kind._fields) - set(COLUMNS[name]) for kind, name in TABLES.items()} == {
        name: set() for name in TABLES.values()
    }


def test_the_bars_of_a_played_group_are_its_placements_and_each_has_the_role_that_was_derived():
    tables = grown_tables()
    shown = view_of(tables)
    placed = tables["task_placements"]
    numbers = [generation.number for generation in shown.generations]
    drawn = Counter(
        (shown.tasks[bar.task].task, shown.processes[bar.process].process_id, bar.role.name.lower(), numbers[index])
        for bar in shown.bars
        for index in range(bar.first, bar.last + 1)
    )
    placed_rows = zip(placed["task"], placed["process_id"], placed["role"], placed["generation"], strict=True)
    assert drawn == Counter(placed_rows)
    assert {bar.role for bar in shown.bars} == {Role.ACTIVE, Role.STANDBY, Role.WARMUP}


def test_the_line_of_a_played_group_adds_up_its_rebalances():
    tables = grown_tables()
    line = view_of(tables).line
    rebalances = tables["rebalances"]
    assert line.group == "orders-app"
    assert line.rebalances == len(rebalances["generation"]) == sum(line.strip)
    assert line.owner_changes == sum(count or 0 for count in rebalances["owner_changes"]) > 0
    assert line.adopted == sum(count or 0 for count in rebalances["adopted"]) > 0
    assert line.worst_gap_ms == max(gap for gap in tables["movements"]["gap_ms"] if gap is not None)
    assert line.probing is None


def test_moves_name_their_tasks_and_processes_and_rows_count_them():
    tables = grown_tables()
    shown = view_of(tables)
    ids = [process.process_id for process in shown.processes]
    named = [(move.task, ids[move.source], ids[move.target], move.number) for move in shown.moves]
    movements = tables["movements"]
    assert sorted(named) == sorted(
        zip(movements["task"], movements["from_process"], movements["to_process"], movements["generation"], strict=True)
    )
    assert Counter({row.task: row.moves for row in shown.tasks if row.moves}) == Counter(movements["task"])


def test_instances_are_numbered_as_they_came_and_tell_their_endpoints():
    assert [process.endpoint for process in view_of(grown_tables()).processes] == ["w1:8080", "w2:8080", "w3:8080"]


def test_warm_ups_of_a_played_group_are_handed_over_within_a_probing_interval():
    shown = view_of(grown_tables())
    over = [warmup.lasted_ms for warmup in shown.warmups if warmup.outcome == "handed over"]
    planned = [move for move in shown.moves if move.planned]
    assert len(over) == len(planned) > 0
    assert all(600_000 <= lasted < 602_000 for lasted in over)


def test_the_lag_of_a_copy_is_the_sampled_end_less_what_it_reported_and_unknown_otherwise():
    ends = [EndOffset("g", 0, 5, "0_0", 70), EndOffset("g", 0, 5, "0_0", 30)]
    sums = {"0_0": 40, "0_1": 40}
    placed = [placement(5, task, offset_sum=value) for task, value in sums.items()]
    lags = {bar.task: bar.lags for bar in view([rebalance(1, 5)], placed, ends).bars}
    assert lags == {0: ((0, 60),), 1: ()}
    for unknown in (None, -2, -3):
        (bar,) = view([rebalance(1, 5)], [placement(5, "0_0", offset_sum=unknown)], ends).bars
        assert bar.lags == ()


def test_no_lag_is_shown_where_a_changelog_of_the_generation_belongs_to_no_known_task():
    ends = [EndOffset("g", 0, 5, "0_0", 70), EndOffset("g", 0, 5, None, 30)]
    (bar,) = view([rebalance(1, 5)], [placement(5, "0_0", offset_sum=40)], ends).bars
    assert bar.lags == ()


def test_a_replica_has_no_known_role_where_the_leader_does_not_report_it():
    placed = [placement(5, "0_0", "p"), placement(5, "0_0", "q", "standby", warmup_known=False)]
    shown = view([rebalance(1, 5)], placed)
    assert [bar.role for bar in shown.bars] == [Role.ACTIVE, Role.COPY]
    assert not shown.warmups_known


def test_a_group_that_was_made_again_has_the_generation_one_twice_and_its_bars_apart():
    rebalances = [rebalance(1, 5, 0), rebalance(2, 6, 10), rebalance(1, 9, 20)]
    shown = view(rebalances, [placement(5, "0_0"), placement(6, "0_0", "q"), placement(9, "0_0")])
    assert [generation.number for generation in shown.generations] == [1, 2, 1]
    assert [(bar.process, bar.first, bar.last) for bar in shown.bars] == [(0, 0, 0), (1, 1, 1), (0, 2, 2)]
    assert [generation.missing for generation in shown.generations] == [0, 0, 0]


def test_generations_that_no_record_holds_are_counted_and_their_neighbours_not_torn_apart():
    shown = view([rebalance(3, 5), rebalance(9, 6, 10)], [placement(5, "0_0"), placement(6, "0_0")])
    assert [generation.missing for generation in shown.generations] == [0, 5]
    assert [(bar.first, bar.last) for bar in shown.bars] == [(0, 1)]


def test_a_generation_without_a_placement_ends_a_bar():
    shown = view([rebalance(1, 5), rebalance(2, 6), rebalance(3, 7)], [placement(5, "0_0"), placement(7, "0_0")])
    assert [(bar.first, bar.last) for bar in shown.bars] == [(0, 0), (2, 2)]


def test_what_the_tables_do_not_tell_stays_unknown():
    shown = view([rebalance(1, 5)], [placement(5, "0_0", process=None)])
    (only,) = shown.generations
    assert (only.cause, only.leader, only.owner_changes, only.probing) == ("unknown", None, None, None)
    assert (shown.tasks, shown.bars, shown.skews) == ((), (), {})


def test_a_cause_that_this_report_does_not_know_is_unknown():
    (only,) = view([rebalance(1, 5, cause="<b>new</b>")]).generations
    assert only.cause == "unknown"


def test_rows_of_generations_outside_the_asked_time_are_left_out():
    shown = view([rebalance(2, 6)], [placement(5, "0_0"), placement(6, "0_1")])
    assert [row.task for row in shown.tasks] == ["0_1"]


@pytest.mark.parametrize("scope", ["subtopology", "rack"])
def test_of_subtopologies_and_racks_the_worst_is_shown(scope):
    from kstreams_assign.history.report.rows import Balance

    rows = [Balance("g", 0, 5, 0, scope, name, skew) for name, skew in (("0", 3.0), ("1", 1.0), ("2", None))]
    shown = build_group(GroupRows([rebalance(1, 5)], balance=rows), Span(0, 9))
    assert shown.skews == {scope: ((0, 3.0),)}


def test_rebalances_in_bunches_ask_for_equal_widths_and_regular_ones_for_time():
    assert not bunched([0, 600, 1200, 1800], 2400)
    assert bunched([0, 1, 2, 3, 100_000, 100_001, 100_002], 200_000)
    assert not bunched([5], 100)


@pytest.mark.parametrize(
    ("until_ms", "drawn_ms"),
    [(10_000, 10_600), (10_700, 10_700), (13_500, 13_500), (13_501, 11_500), (9_999_999, 11_500)],
)
def test_the_last_generation_can_be_seen_and_long_quiet_does_not_press_the_rest_together(until_ms, drawn_ms):
    assert drawn_until([0, 4_000, 10_000], until_ms) == drawn_ms


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 120)), unique=True))
def test_tasks_stand_in_the_order_of_numbers_and_what_is_no_task_id_comes_last(ids):
    texts = [f"{subtopology}_{partition}" for subtopology, partition in ids]
    expected = [f"{subtopology}_{partition}" for subtopology, partition in sorted(ids)]
    assert sorted([*texts, "<x>"], key=task_order) == [*expected, "<x>"]


def test_numbers_in_names_count_as_numbers():
    assert sorted(["w10:1", "w2:1", "", "a", "10", "9"], key=natural) == ["", "a", "w2:1", "w10:1", "9", "10"]


def test_the_fleet_counts_each_kind_and_each_reason_once():
    fleet = build_fleet(
        [rebalance(1, 5, NOON_MS), rebalance(1, 7, NOON_MS + 5, group="h")],
        quarantine=[Quarantined(3, at, 0, "damaged_value", why) for at, why in ((9, "cut"), (4, "cut"), (1, None))],
        counts=[Count("late", 2), Count("offset_commit", 5), Count("late", 1)],
    )
    assert fleet.span == Span(NOON_MS, NOON_MS + 5)
    assert [line.group for line in fleet.lines] == ["g", "h"]
    assert fleet.counts == (("offset_commit", 5), ("late", 3))
    assert fleet.damage == (
        Damage("damaged_value", "cut", 2, "partition 3, offset 4"),
        Damage("damaged_value", "", 1, "partition 3, offset 1"),
    )


def test_three_minutes_of_history_are_not_stretched_to_a_rate_an_hour():
    fleet = build_fleet([rebalance(n, n, n * 18_000) for n in range(11)])
    assert fleet.lines[0].per_hour == 11


def test_generations_stand_in_the_order_of_the_topic_where_a_clock_is_set_back():
    """The coordinator moved to a broker whose clock is behind: the third and fourth generation have earlier times."""
    times_ms = [100_000, 200_000, 50_000, 60_000, 300_000]
    rows = [rebalance(n, n, time_ms, members=n, state="stable") for n, time_ms in enumerate(times_ms, 1)]
    placements = [placement(n, "0_0") for n in range(1, 6)] + [placement(3, "0_1", role="warmup")]
    shown = view(rows[::-1], placements, end_ms=300_000)
    assert [(g.number, g.time_ms, g.missing) for g in shown.generations] == [
        (n, time_ms, 0) for n, time_ms in enumerate(times_ms, 1)
    ]
    assert [(bar.first, bar.last) for bar in shown.bars if bar.role is Role.ACTIVE] == [(0, 4)]
    assert [warmup.lasted_ms for warmup in shown.warmups] == [10_000]
    assert sum(map(sum, shown.buckets.counts.values())) == 5
    assert shown.drawn_ms == (100_000, 200_000, 200_000, 200_000, 300_000)
    assert shown.drawn_until_ms >= 300_000
    behind = view(rows[:4], placements, end_ms=200_000)
    assert (behind.line.members, behind.line.last_ms) == (4, 60_000)
    assert behind.drawn_until_ms >= 200_000
    assert behind.line == group_line(rows[3::-1], (), Span(0, 200_000))
    assert all(warmup.lasted_ms >= 0 for warmup in view(rows[:3], placements, end_ms=200_000).warmups)


# --- streams groups -------------------------------------------------------------------


def test_a_streams_group_has_no_leader_but_times_and_its_skipped_epochs_are_not_missing():
    coordinator = Coordinator(Random(4))
    first = coordinator.join(A)
    coordinator.settle()
    coordinator.commit(first)
    coordinator.wait(2_000)
    coordinator.bump()
    second = coordinator.join(B)
    coordinator.settle()
    coordinator.commit(first)
    coordinator.commit(second)
    view = view_of(streams_derived(coordinator.records))
    assert [generation.number for generation in view.generations] == [1, 3]
    assert {(generation.leader, generation.by_broker, generation.missing) for generation in view.generations} == {
        (None, True, 0)
    }
    assert view.generations[1].took_ms > 0
    assert view.moves
    assert all(0 < move.handover_ms < view.generations[1].took_ms for move in view.moves)
    assert {bar.role for bar in view.bars} == {Role.ACTIVE, Role.STANDBY}
    payload = group_payload(view)
    assert [row["by_broker"] for row in payload["generations"]] == [True, True]
    assert [row[-1] for row in payload["moves"]] == [move.handover_ms for move in view.moves]


@pytest.mark.parametrize(("set_back_ms", "known"), [(1, True), (60_000, False)])
def test_a_time_of_a_streams_group_that_a_set_back_clock_makes_negative_is_unknown(set_back_ms, known):
    """The clock goes back between the old owner's release of its tasks and the new owner's assignment."""
    coordinator = Coordinator(Random(4))
    first = coordinator.join(A)
    coordinator.settle()
    coordinator.commit(first)
    coordinator.wait(100_000)
    second = coordinator.join(B)
    coordinator.wait(2_000)
    coordinator.beat(first)
    coordinator.wait(50)
    coordinator.beat(first)
    coordinator.wait(50 - set_back_ms)
    coordinator.settle()
    coordinator.commit(second)
    tables = streams_derived(coordinator.records)
    movements = tables["movements"]
    handovers = [taken - freed for freed, taken in zip(movements["released_ms"], movements["taken_ms"], strict=True)]
    took = tables["rebalances"]["time_ms"][-1] - tables["rebalances"]["began_ms"][-1]
    assert handovers
    assert all((ms >= 0) == known for ms in [*handovers, took])
    view = view_of(tables)
    assert [move.handover_ms for move in view.moves] == (handovers if known else [None] * len(handovers))
    assert view.generations[-1].took_ms == (took if known else None)


@pytest.mark.parametrize(("began_ms", "took_ms"), [(None, None), (99, 1), (100, 0), (101, None)])
def test_a_rebalance_took_no_negative_time(began_ms, took_ms):
    (generation,) = view([rebalance(1, 1, 100, began_ms=began_ms)]).generations
    assert generation.took_ms == took_ms


def test_a_classic_group_has_no_such_times():
    view = view_of(grown_tables())
    assert not any(generation.by_broker or generation.took_ms for generation in view.generations)
    assert {move.handover_ms for move in view.moves} == {None}


def test_a_classic_generation_behind_a_streams_group_misses_none_before():
    rows = [rebalance(9, 1, 1), rebalance(3, 2, 2, protocol="streams"), rebalance(7, 3, 3), rebalance(9, 4, 4)]
    assert [generation.missing for generation in build_group(GroupRows(rows), Span(1, 4)).generations] == [0, 0, 0, 1]
