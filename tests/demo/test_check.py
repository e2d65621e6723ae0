"""The check: every kind of damage is found by id, every hand-over is measured as ``contracts.md`` defines it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.demo.app import Account, Row
from kstreams_assign.demo.check import compare, find_moves, longest_silences
from kstreams_assign.demo.fleet_state import Rebalance, Takeover
from kstreams_assign.demo.orders import Order

ORDERS = [Order(0, 7, 10), Order(1, 8, 10), Order(2, 7, 10)]
WHOLE = {7: Account(20, (0, 2)), 8: Account(10, (1,))}


def row(offset, at, process, *, partition=0, order_id=None, customer=0, written=None):
    return Row(
        order_id=offset if order_id is None else order_id,
        customer=customer,
        total_cents=0,
        partition=partition,
        offset=offset,
        input_ms=at if written is None else written,
        processed_ms=at,
        process=process,
    )


ROWS = [row(order.id, 0, "w1", order_id=order.id, customer=order.customer) for order in ORDERS]


def test_a_whole_run_is_good():
    result = compare(ORDERS, WHOLE, WHOLE, ROWS)
    assert result == (3, (), (), (), ())
    assert result.good


@pytest.mark.parametrize(
    ("stores", "changelogs"),
    [({**WHOLE, 7: Account(10, (0,))}, WHOLE), (WHOLE, {**WHOLE, 7: Account(10, (0,))})],
    ids=["store", "changelog"],
)
def test_an_order_missing_in_a_store_or_in_its_changelog_is_lost(stores, changelogs):
    result = compare(ORDERS, stores, changelogs, ROWS)
    assert (result.counted, result.lost) == (2, (2,))
    assert not result.good


def test_a_lost_order_and_a_repeated_one_do_not_cancel_out():
    damaged = {7: Account(20, (0, 0)), 8: Account(10, (1,))}
    result = compare(ORDERS, damaged, damaged, ROWS)
    assert (result.lost, result.duplicated) == ((2,), (0,))


def test_a_repeated_order_is_reported_and_still_good():
    result = compare(ORDERS, {**WHOLE, 8: Account(20, (1, 1))}, WHOLE, ROWS)
    assert result.duplicated == (1,)
    assert result.good


def test_an_order_that_never_came_out_is_found():
    result = compare(ORDERS, WHOLE, WHOLE, ROWS[:2])
    assert result.never_in_output == (2,)
    assert not result.good


def test_an_order_in_another_customers_account_is_lost_there_and_unknown_here():
    damaged = {7: Account(10, (0,)), 8: Account(20, (1, 2))}
    result = compare(ORDERS, damaged, damaged, ROWS)
    assert (result.lost, result.unknown) == ((2,), (2,))


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["keep", "drop", "twice"])), max_size=30))
def test_findings_are_those_of_a_slow_look_at_each_id(fates):
    orders = [Order(number, customer, 1) for number, (customer, _) in enumerate(fates)]
    copies = {"keep": 1, "drop": 0, "twice": 2}
    state: dict[int, tuple[int, ...]] = {}
    for order, (_, fate) in zip(orders, fates, strict=True):
        state[order.customer] = state.get(order.customer, ()) + (order.id,) * copies[fate]
    accounts = {customer: Account(len(ids), ids) for customer, ids in state.items()}
    result = compare(orders, accounts, accounts, [])
    held = Counter(order_id for account in accounts.values() for order_id in account.order_ids)
    assert list(result.lost) == [order.id for order in orders if held[order.id] == 0]
    assert list(result.duplicated) == [order.id for order in orders if held[order.id] > 1]
    assert result.counted == sum(held[order.id] > 0 for order in orders)


# --- moves ---------------------------------------------------------------------------


def test_the_gap_goes_from_the_old_owners_last_committed_record_to_the_new_owners_first():
    rows = [row(0, 100, "w1"), row(1, 110, "w1"), row(2, 120, "w1"), row(1, 400, "w2"), row(2, 401, "w2")]
    (move,) = find_moves(rows, [], [], 1_000)
    # Offset 1 is where the new owner began, so the old one's records 1 and 2 were never committed.
    assert move == ("0_0", "w1", "w2", "rebalance", False, 300)


def test_an_owner_that_committed_nothing_is_measured_from_its_first_record():
    (move,) = find_moves([row(0, 100, "w1"), row(1, 110, "w1"), row(0, 400, "w2")], [], [], 1_000)
    assert move.gap_ms == 300


def test_a_move_after_a_death_is_a_crash_and_one_before_it_is_not():
    rows = [row(0, 100, "w1"), row(1, 200, "w2"), row(2, 500, "w1")]
    first, second = find_moves(rows, [], [("w2", 300)], 1_000)
    assert (first.cause, second.cause) == ("rebalance", "crash")


def test_a_worker_that_died_earlier_and_came_back_hands_over_in_order():
    rows = [row(0, 100, "w1"), row(1, 200, "w1"), row(2, 300, "w2")]
    (move,) = find_moves(rows, [], [("w1", 150)], 1_000)
    assert move.cause == "rebalance"


@pytest.mark.parametrize(("restored", "warm"), [(0, True), (1_000, True), (1_001, False)])
def test_a_move_is_warm_when_no_more_than_the_acceptable_lag_had_to_be_restored(restored, warm):
    takeovers = [Takeover(90, "w2", "0_0", 5), Takeover(150, "w2", "0_0", restored), Takeover(150, "w2", "0_1", 3)]
    late = Takeover(900, "w2", "0_0", 5)
    (move,) = find_moves([row(0, 100, "w1"), row(1, 200, "w2")], [*takeovers, late], [], 1_000)
    assert move.warm is warm


def test_moves_of_all_partitions_come_in_the_order_in_which_they_happened():
    rows = [row(0, 1, "w1"), row(1, 9, "w2"), row(0, 1, "w2", partition=1), row(1, 5, "w1", partition=1)]
    assert [(move.task, move.target) for move in find_moves(rows, [], [], 0)] == [("0_1", "w1"), ("0_0", "w2")]


def test_rows_that_reach_the_log_late_count_by_when_they_were_processed():
    rows = [row(0, 100, "w1"), row(2, 300, "w2"), row(1, 120, "w1")]
    (move,) = find_moves(rows, [], [], 0)
    assert move.gap_ms == 180


# --- silence -------------------------------------------------------------------------


def silences(rows, *rebalances, after_ms=0):
    return [(result.generation, result.ms) for result in longest_silences(rows, rebalances, after_ms)]


def test_silence_counts_only_while_input_waits():
    """The second record was written 20 ms before it was processed, so the 400 ms before it are no gap."""
    rows = [row(0, 100, "w1"), row(1, 520, "w1", written=500)]
    assert silences(rows, Rebalance(1, 0, 1_000)) == [(1, 20)]


def test_each_rebalance_has_its_longest_silence_and_the_time_between_has_one_too():
    times = [(100, 90), (300, 100), (350, 300), (9_000, 300), (9_007, 9_000)]
    rows = [row(offset, at, "w1", written=written) for offset, (at, written) in enumerate(times)]
    result = silences(rows, Rebalance(1, 90, 250), Rebalance(2, 9_000, 9_010), Rebalance(3, 20_000, 20_001))
    assert result == [(1, 200), (2, 8_650), (None, 50)]


def test_silence_shortly_behind_a_rebalance_belongs_to_it():
    rows = [row(0, 100, "w1"), row(1, 300, "w1", written=100)]
    assert silences(rows, Rebalance(1, 0, 90)) == [(None, 200)]
    assert silences(rows, Rebalance(1, 0, 90), after_ms=10) == [(1, 200)]


def test_silence_of_a_task_that_moved_is_its_gap_and_not_counted_here():
    rows = [row(0, 100, "w1"), row(1, 900, "w2", written=100)]
    assert silences(rows, Rebalance(1, 0, 1_000)) == []
