"""The names of topics in the test driver: a topic that is read comes before a repartition topic of that short name."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kstreams_assign import ConfigError, GlobalTable, Record, Subtopology, Task, TopologyTestDriver

PRICES = GlobalTable("prices", topic="prices")


def by_article(task: Task, orders: Sequence[Record]) -> None:
    for order in orders:
        task.emit("prices", order.value, order.key)


def show(task: Task, records: Sequence[Record]) -> None:
    for record in records:
        task.emit("shown", record.key, record.topic.encode())


KEYED = Subtopology(by_article, sources=["orders"], sinks=["prices"])
SHOWN = Subtopology(show, repartition_sources=["prices"], sinks=["shown"])


def shown(driver: TopologyTestDriver) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in driver.read("shown")]


def test_a_record_for_a_global_table_goes_to_its_topic() -> None:
    with TopologyTestDriver([KEYED, SHOWN], global_tables=[PRICES], partitions={"prices": 3}) as driver:
        driver.pipe("prices", b"apple", b"3", partition=2)
        assert (driver.global_table("prices").get(b"apple"), shown(driver)) == (b"3", [])
        driver.pipe("orders", b"7", b"apple")
        assert shown(driver) == [(b"apple", b"test-prices-repartition")], "the sink is the repartition topic"


@pytest.mark.parametrize("partitions", [{"prices": 3}, {}])
def test_a_record_for_a_topic_that_matches_a_pattern_goes_to_it(partitions: dict[str, int]) -> None:
    matching = Subtopology(show, sources_pattern="pri.*", sinks=["shown"])
    with TopologyTestDriver([KEYED, SHOWN, matching], partitions=partitions) as driver:
        driver.pipe("prices", b"apple", b"3", partition=partitions.get("prices", 1) - 1)
        assert shown(driver) == [(b"apple", b"prices")]


def test_a_dead_letter_is_read_from_its_topic() -> None:
    def fail(_task: Task, _records: Sequence[Record]) -> None:
        raise ValueError

    failing = Subtopology(fail, sources=["orders"], sinks=["prices"], on_error="dead_letter")
    with TopologyTestDriver([failing, SHOWN], errors_dead_letter_queue_topic_name="prices") as driver:
        driver.pipe("orders", b"7", b"apple")
        assert [record.key for record in driver.read("prices")] == [b"7"]


def test_only_the_short_name_means_the_repartition_topic() -> None:
    with TopologyTestDriver([KEYED, SHOWN]) as driver:
        driver.pipe("prices", b"apple", b"7")
        assert shown(driver) == [(b"apple", b"test-prices-repartition")]
    with pytest.raises(ConfigError, match="it is a repartition topic; write Repartition"):
        TopologyTestDriver([KEYED, SHOWN], partitions={"prices": 3})
