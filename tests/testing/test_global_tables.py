"""Global tables in the test driver: what is written to their topics is in them at once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kstreams_assign import ConfigError, GlobalTable, Record, Subtopology, Task, TopologyTestDriver, ValueAndTime
from kstreams_assign.allowed_values import GUARANTEES

COUNTRIES = GlobalTable("countries", topic="country-codes")


def name_country(task: Task, orders: Sequence[Record]) -> None:
    countries = task.global_table("countries")
    for order in orders:
        assert order.key is not None
        task.emit("named", order.key, countries.get(order.key))


def found_country(task: Task, orders: Sequence[Record]) -> None:
    for order in orders:
        task.emit("country-codes", order.key, order.value)


NAME = Subtopology(name_country, sources=["orders"], sinks=["named"])


def test_what_is_piped_is_in_the_table_at_once_whatever_its_partition() -> None:
    with TopologyTestDriver([NAME], global_tables=[COUNTRIES], partitions={"country-codes": 3}) as driver:
        driver.pipe("orders", b"ch", b"")
        driver.pipe_many("country-codes", [(b"ch", b"Switzerland"), (b"it", b"Italy"), (None, b"nowhere")])
        assert list(driver.global_table("countries").range()) == [(b"ch", b"Switzerland"), (b"it", b"Italy")]
        driver.pipe("orders", b"ch", b"")
        driver.pipe("country-codes", b"ch", None)
        driver.pipe("orders", b"ch", b"")
        assert [record.value for record in driver.read("named")] == [None, b"Switzerland", None]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_what_the_topology_writes_itself_is_in_the_table_once_it_can_be_read(guarantee: str) -> None:
    found = Subtopology(found_country, sources=["founded"], sinks=["country-codes"])
    with TopologyTestDriver(
        [NAME, found], global_tables=[COUNTRIES], auto_commit=False, processing_guarantee=guarantee
    ) as driver:
        driver.pipe("founded", b"ss", b"South Sudan")
        exactly_once = guarantee == "exactly_once_v2"
        assert driver.global_table("countries").get(b"ss") == (None if exactly_once else b"South Sudan")
        driver.commit()
        assert driver.global_table("countries").get(b"ss") == b"South Sudan"


def test_a_timestamped_table_has_the_times_of_the_records() -> None:
    rates = GlobalTable("rates", topic="rates", timestamped=True)
    with TopologyTestDriver([NAME], global_tables=[COUNTRIES, rates]) as driver:
        driver.pipe("rates", b"chf", b"0.9", 7_000)
        assert driver.timestamped_global_table("rates").get_with_timestamp(b"chf") == ValueAndTime(b"0.9", 7_000)
        assert driver.global_table("rates").get(b"chf") == b"0.9"
        driver.pipe("rates", b"chf", None)
        assert driver.global_table("rates").get(b"chf") is None


def test_a_topic_may_be_read_by_tasks_and_as_a_table() -> None:
    both = Subtopology(name_country, sources=["country-codes"], sinks=["named"])
    with TopologyTestDriver([both], global_tables=[COUNTRIES]) as driver:
        driver.pipe("country-codes", b"it", b"Italy")
        assert [record.value for record in driver.read("named")] == [b"Italy"]


def test_tables_that_are_not_declared_are_refused() -> None:
    with TopologyTestDriver([NAME], global_tables=[COUNTRIES]) as driver:
        with pytest.raises(ConfigError, match=r"global table 'rates': no such table; global_tables declares countries"):
            driver.global_table("rates")
        with pytest.raises(ConfigError, match="must be one of orders, country-codes"):
            driver.pipe("rates", b"a", b"b")
    with pytest.raises(ConfigError, match="name used twice: countries"):
        TopologyTestDriver([NAME], global_tables=[COUNTRIES, COUNTRIES])
    driver = TopologyTestDriver([NAME])
    with pytest.raises(ConfigError, match=r"global table 'countries': no such table; global_tables declares none"):
        driver.pipe("orders", b"ch", b"")
