"""Stores whose changelog is a source topic: one for each topic, and with a partition for each task."""

from __future__ import annotations

import pytest

from kstreams_assign.errors import ConfigError, TopologyMismatch
from kstreams_assign.model import RepartitionTopic, Store, SubtopologyShape, TopologyShape
from kstreams_assign.topology.flows import Flow
from kstreams_assign.topology.internal import refuse_small_tables, repartition_counts

TABLE = Store("customers", source="customers")
WORDS = RepartitionTopic("app-words-repartition")
JOIN = TopologyShape((SubtopologyShape(("customers", "orders"), (TABLE,)),))
REGROUPED = TopologyShape(
    (
        SubtopologyShape(("lines",), sinks=(WORDS.topic,)),
        SubtopologyShape(("customers", WORDS.topic), (TABLE,), (WORDS,)),
    )
)


def test_two_stores_with_one_source_are_refused_with_both_names_and_the_fix() -> None:
    stores = [Store("names", source="in"), "others", Store("newest", source="in", timestamped=True)]
    with pytest.raises(ConfigError, match=r"^stores names and newest: source = 'in': .* leave out source of one of"):
        Flow.of(["in"], stores)


def test_stores_of_different_sources_are_tables_of_them() -> None:
    stores = [Store("names", source="in"), Store("others", source="more"), Store("newest")]
    assert Flow.of(["in", "more"], stores).shape.stores == tuple(stores)


@pytest.mark.parametrize(
    ("topology", "counts", "larger"),
    [
        (JOIN, {"customers": 2, "orders": 4}, "orders has 4"),
        (REGROUPED, {"customers": 3, "lines": 5}, "app-words-repartition has 5"),
    ],
)
def test_a_table_with_fewer_partitions_than_its_subtopology_has_tasks_is_refused(
    topology: TopologyShape, counts: dict[str, int], larger: str
) -> None:
    has = f"customers has {counts['customers']}, {larger}"
    with pytest.raises(
        TopologyMismatch, match=f"^store customers: its source .* too few partitions: {has}; .*copartit"
    ):
        repartition_counts(topology, counts)


@pytest.mark.parametrize(
    "counts", [{"customers": 4, "orders": 4}, {"customers": 4, "orders": 2}, {"orders": 4}], ids=["=", ">", "unknown"]
)
def test_a_table_with_a_partition_for_each_task_is_allowed(counts: dict[str, int]) -> None:
    refuse_small_tables(JOIN, counts)


def test_a_joined_repartition_topic_takes_the_partitions_of_the_table() -> None:
    reader = SubtopologyShape(("customers", WORDS.topic), (TABLE,), (WORDS,), copartition=(("customers", WORDS.topic),))
    joined = TopologyShape((REGROUPED.subtopologies[0], reader))
    assert repartition_counts(joined, {"customers": 3, "lines": 5}) == {WORDS.topic: 3}


def test_a_store_with_a_changelog_of_its_own_may_have_a_small_source() -> None:
    own = SubtopologyShape(("customers", "orders"), (Store("customers"),))
    assert repartition_counts(TopologyShape((own,)), {"customers": 2, "orders": 4}) == {}
