"""A group whose state is a table of a source topic: with a description of it, lags and costs are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.observe.changes import Alternative
from kstreams_assign.observe.cluster import ObservedGroup
from kstreams_assign.observe.decoded import decode_group
from kstreams_assign.observe.describe import describe
from kstreams_assign.observe.group_state import state_of_group
from kstreams_assign.observe.reasons import reasons
from kstreams_assign.observe.settings import settings_of
from kstreams_assign.observe.topology import given_topology
from kstreams_assign.observe.what_if import predict
from tests.observe.seen_group import SeenGroup

TABLE = '[[topology.subtopology]]\nsources = ["orders"]\nstores = [{ name = "totals", source = "orders" }]\n'
COMMITTED = {TopicPartition("orders", partition): 50_000 for partition in range(4)}


def observed(end_offsets: Mapping[TopicPartition, int]) -> ObservedGroup:
    table = TopologyShape((SubtopologyShape(("orders",), (Store("totals", source="orders"),)),))
    group = SeenGroup(table, {"orders": 4}, assignor="least_movement")
    group.add(1)
    group.settle()
    snapshot = replace(group.snapshot(), partition_counts={"orders": 4}, end_offsets=end_offsets, begin_offsets={})
    decoded = decode_group(snapshot)
    return ObservedGroup(decoded, given_topology(TABLE, snapshot), settings_of(decoded, {}))


def test_the_loss_of_a_table_costs_the_restore_of_its_source() -> None:
    said = [text for text in reasons(describe(observed(COMMITTED))) if text.startswith("losing ")]
    assert len(said) == 1
    assert "would cost a restore of 0_0, 0_1, 0_2, 0_3 (up to 200,000 records)" in said[0]


def test_a_table_that_moves_is_predicted_to_need_a_warm_up() -> None:
    group = observed(COMMITTED)
    assert group.end_offset_sums == {TaskId(0, partition): 50_000 for partition in range(4)}
    outcome = predict(state_of_group(group), Alternative(add=1))
    assert (outcome.owner_changes, outcome.rebalances) == (2, 3)


def test_without_the_committed_offsets_the_end_of_a_table_is_not_known() -> None:
    group = observed({})
    assert not group.ends_known
    assert "not known" in state_of_group(group).assumed["end offsets"]
