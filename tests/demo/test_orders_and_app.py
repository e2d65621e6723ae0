"""The stream of orders and the application's function, without a broker."""

from __future__ import annotations

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign import Record, Subtopology, TaskId
from kstreams_assign.demo.app import (
    STORE,
    Account,
    Row,
    orders_topic,
    read_account,
    read_rows,
    totals_app,
    totals_topic,
)
from kstreams_assign.demo.orders import Order, order_stream, read_key, read_value
from kstreams_assign.tasks.buffer import Emitted
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.task_workspace import TaskWorkspace

orders = st.builds(Order, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))


class OneStore:
    """Task stores in a dict: what the application needs of them."""

    def __init__(self):
        self.values: dict[bytes, bytes] = {}

    def get_many(self, _store, keys):
        return [self.values.get(key) for key in keys]


def run(app: Subtopology, stores: OneStore, batches: list[list[Record]]) -> list[bytes]:
    """Feed batches to a task and commit after each; what it emitted."""
    workspace = TaskWorkspace(TaskId(0, 0), app.shape, {sink: sink for sink in app.sinks}, stores, AtWork(0), {})
    rows = []
    for batch in batches:
        app.process(workspace.task, batch)
        taken = workspace.take()
        stores.values.update(taken.writes[STORE])
        rows += [Emitted(*row).value for row in taken.emitted]
    return rows


def as_records(wanted: list[Order]) -> list[Record]:
    return [Record("app-orders", 3, 100 + i, 5_000 + i, order.key, order.value) for i, order in enumerate(wanted)]


def test_the_same_seed_gives_the_same_orders_and_another_one_others():
    first, same_seed, other = (list(islice(order_stream(seed), 100)) for seed in (7, 7, 8))
    assert first == same_seed != other


def test_ids_count_from_zero_without_a_hole():
    assert [order.id for order in islice(order_stream(1), 1_000)] == list(range(1_000))


def test_customers_stay_in_their_number_and_most_of_them_order():
    customers = {order.customer for order in islice(order_stream(1), 20_000)}
    assert min(customers) >= 0
    assert max(customers) < 2_000
    assert len(customers) > 1_900


@given(orders)
def test_an_order_survives_being_a_record(order):
    assert (read_key(order.key), *read_value(order.value)) == (order.customer, order.id, order.cents)


@given(st.lists(st.integers(0, 5), max_size=60), st.integers(1, 7))
def test_totals_and_ids_are_those_of_a_plain_sum_however_records_are_batched(customers, batch_size):
    wanted = [Order(i, customer, i * 7 + 1) for i, customer in enumerate(customers)]
    records = as_records(wanted)
    stores = OneStore()
    rows = run(
        totals_app("app", "w1"), stores, [records[i : i + batch_size] for i in range(0, len(records), batch_size)]
    )

    sums: dict[int, list[Order]] = {}
    for order, row in zip(wanted, read_rows(rows), strict=True):
        sums.setdefault(order.customer, []).append(order)
        assert (row.order_id, row.customer, row.total_cents) == (
            order.id,
            order.customer,
            sum(o.cents for o in sums[order.customer]),
        )
    assert {read_key(key): read_account(value) for key, value in stores.values.items()} == {
        customer: Account(sum(o.cents for o in placed), tuple(o.id for o in placed))
        for customer, placed in sums.items()
    }


def test_an_order_that_is_applied_twice_shows_twice_in_the_account():
    stores = OneStore()
    records = as_records([Order(1, 9, 50)])
    run(totals_app("app", "w1"), stores, [records, records])
    assert read_account(stores.values[Order(1, 9, 50).key]) == Account(100, (1, 1))


def test_a_row_says_where_the_order_stood_in_the_input_and_who_processed_it():
    (value,) = run(totals_app("app", "w1"), OneStore(), [as_records([Order(1, 9, 50)])])
    (row,) = read_rows([value])
    assert row._replace(processed_ms=0) == Row(1, 9, 50, 3, 100, 5_000, 0, "w1")
    assert row.processed_ms > 1_600_000_000_000


def test_the_topology_reads_orders_keeps_one_store_and_writes_totals():
    app = totals_app("app", "w1")
    assert (list(app.sources), list(app.stores), list(app.sinks)) == (
        [orders_topic("app")],
        [STORE],
        [totals_topic("app")],
    )
