"""The driver refuses tables of source topics that a worker could not keep."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kstreams_assign import ConfigError, Record, Store, Subtopology, Task, TopologyTestDriver
from kstreams_assign.errors import TopologyMismatch


def keep(task: Task, records: Sequence[Record]) -> None:
    for record in records:
        if record.topic == "customers":
            assert record.key is not None
            task.store("customers").put(record.key, record.value)


JOIN = [Subtopology(keep, sources=["customers", "orders"], stores=[Store("customers", source="customers")])]


def test_a_table_with_fewer_partitions_than_the_subtopology_has_tasks_is_refused() -> None:
    with pytest.raises(
        TopologyMismatch, match=r"store customers: .* too few partitions: customers has 2, orders has 4"
    ):
        TopologyTestDriver(JOIN, partitions={"customers": 2, "orders": 4})


def test_a_table_may_have_more_partitions_than_other_sources() -> None:
    with TopologyTestDriver(JOIN, partitions={"customers": 4, "orders": 2}) as driver:
        driver.pipe("customers", b"ann", b"Ann", partition=3)
        assert driver.store("customers", 3).get(b"ann") == b"Ann"


def test_two_tables_of_one_topic_are_refused() -> None:
    stores = [Store("names", source="in"), Store("newest", source="in", timestamped=True)]
    with pytest.raises(ConfigError, match="stores names and newest: source = 'in'"):
        TopologyTestDriver([Subtopology(keep, sources=["in"], stores=stores)])
