"""Declarations of global tables: what is refused, and which topics are warned of."""

from __future__ import annotations

import pytest

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import RepartitionTopic, Store, SubtopologyShape, TopologyShape
from kstreams_assign.topology.global_tables import GlobalTable, checked_global_tables, policy_warnings

SHAPE = TopologyShape((SubtopologyShape(("orders",), (Store("totals"),), (RepartitionTopic("app-x-repartition"),)),))


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", 3, None, "x" * 250])
def test_a_name_that_kafka_does_not_allow_is_refused(name):
    with pytest.raises(ConfigError, match="global table: name = "):
        GlobalTable(name, topic="countries")


@pytest.mark.parametrize("topic", ["", None, 3])
def test_a_topic_that_is_none_is_refused(topic):
    with pytest.raises(ConfigError, match="global table countries: topic = "):
        GlobalTable("countries", topic)


def test_other_arguments_are_refused_with_those_that_there_are():
    with pytest.raises(ConfigError, match="timestamped = 'yes': must be True or False"):
        GlobalTable("t", topic="t", timestamped="yes")
    with pytest.raises(ConfigError, match="GlobalTable: topics: no such setting"):
        GlobalTable("t", topics="t")


def test_tables_are_a_list_of_tables():
    table = GlobalTable("t", topic="countries")
    assert checked_global_tables([table], SHAPE) == (table,)
    assert checked_global_tables((), SHAPE) == ()
    with pytest.raises(TypeError, match="global_tables is a GlobalTable: must be a list"):
        checked_global_tables(table, SHAPE)
    with pytest.raises(TypeError, match=r"global_tables\[0\] is a str: must be a GlobalTable"):
        checked_global_tables(["countries"], SHAPE)


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ([("t", "a"), ("t", "b")], "name used twice: t"),
        ([("t", "a"), ("u", "a")], "topic used twice: a"),
        ([("totals", "a")], "global table totals: is also the name of a store"),
        ([("t", "app-x-repartition")], "is a repartition topic"),
    ],
)
def test_tables_that_contradict_each_other_or_the_topology_are_refused(tables, says):
    with pytest.raises(ConfigError, match=says):
        checked_global_tables([GlobalTable(name, topic=topic) for name, topic in tables], SHAPE)


def test_a_topic_that_deletes_old_records_is_warned_of():
    tables = [GlobalTable(name, topic=name) for name in ("a", "b", "c", "d")]
    policies = {"a": "compact", "b": "delete", "c": "compact, delete"}
    warned = policy_warnings(tables, policies)
    assert [warning.split(":")[0] for warning in warned] == ["global table b", "global table c"]
    assert "cleanup.policy of topic b is delete" in warned[0]
