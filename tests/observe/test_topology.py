"""Topologies, given in Java's format or ours, or inferred from a group; every conclusion is reported."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import RepartitionTopic, Store, SubtopologyShape, TaskId, TopologyShape
from kstreams_assign.observe.decoded import decode_group
from kstreams_assign.observe.snapshot import GroupSnapshot
from kstreams_assign.observe.topology import UNSEEN_STORE, given_topology, inferred_topology, source_matcher
from tests.group.little_group import shape
from tests.observe.seen_group import CHANGELOG, SeenGroup, scaled_out

JAVAS = """Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [clicks, orders])
      --> KSTREAM-FILTER-0000000005
    Processor: KSTREAM-FILTER-0000000005 (stores: [])
      --> KSTREAM-SINK-0000000004
      <-- KSTREAM-SOURCE-0000000000
    Sink: KSTREAM-SINK-0000000004 (topic: totals-repartition)
      <-- KSTREAM-FILTER-0000000005

  Sub-topology: 1
    Source: KSTREAM-SOURCE-0000000006 (topics: [totals-repartition])
      --> KSTREAM-AGGREGATE-0000000003
    Processor: KSTREAM-AGGREGATE-0000000003 (stores: [totals, cache])
      --> none
      <-- KSTREAM-SOURCE-0000000006

  Sub-topology: 2 for global store (will not generate tasks)
    Source: prices (topics: [prices])
      --> keep
    Processor: keep (stores: [prices-store])
      --> none
      <-- prices
  Sub-topology: 3
    Source: wide (topics: region-.*)
      --> none
"""
TOPICS = {
    "clicks": 2,
    "orders": 2,
    "app-totals-repartition": 4,
    "app-totals-changelog": 4,
    "region-eu": 1,
    "region-us": 3,
}
SNAPSHOT = GroupSnapshot("app", "Stable", "consumer", "stream", (), 0, partition_counts=TOPICS)


def test_javas_description_is_read_with_its_internal_topics_patterns_and_global_stores():
    observed = given_topology(JAVAS, SNAPSHOT)
    assert observed.shape == TopologyShape(
        (
            SubtopologyShape(("clicks", "orders"), sinks=("app-totals-repartition",)),
            SubtopologyShape(
                ("app-totals-repartition",),
                (Store("totals"), Store("cache", logged=False)),
                (RepartitionTopic("app-totals-repartition"),),
            ),
            SubtopologyShape(()),
            SubtopologyShape(("region-eu", "region-us")),
        )
    )
    assert len(observed.shape.tasks(TOPICS)) == 2 + 4 + 0 + 3
    assert observed.assumed == {
        "store cache": "there is no topic app-cache-changelog, so it counts as a store without a changelog; "
        "if it is a table of a source topic, describe it in TOML with its source"
    }


def test_our_own_description_is_read_too():
    text = """
        [[topology.subtopology]]
        sources = ["orders"]
        stores = ["totals", { name = "seen", changelog = false }]
        [[topology.subtopology]]
        repartition_sources = ["gone"]
        [[topology.subtopology]]
        sources_pattern = "region-.*"
        stores = [{ name = "regions", source = "region-eu" }, { name = "lost", source = "region-ua" }]
    """
    observed = given_topology(text, SNAPSHOT, "t.toml")
    assert observed.shape.subtopologies == (
        SubtopologyShape(("orders",), (Store("totals"), Store("seen", logged=False))),
        SubtopologyShape(("gone-repartition",)),
        SubtopologyShape(
            ("region-eu", "region-us"),
            (Store("regions", source="region-eu"), Store("lost", logged=False, source="region-ua")),
        ),
    )
    said = "t.toml names topics that do not exist: gone-repartition, region-ua; they count as empty"
    assert observed.assumed == {"topology": said}


def test_topics_that_are_read_by_name_or_pattern_are_known():
    reads = source_matcher(f"{JAVAS}    Source: all (topics: .*ly)\n")
    there = [*TOPICS, "payments", "monthly", "xregion-eu", "prices"]
    assert list(filter(reads, there)) == ["clicks", "orders", "region-eu", "region-us", "monthly"]


def test_a_pattern_matches_no_topic_of_the_brokers_themselves():
    reads = source_matcher('[[topology.subtopology]]\nsources_pattern = ".*"\n')
    assert (reads("orders"), reads("__consumer_offsets"), reads("__transaction_state")) == (True, False, False)


@pytest.mark.parametrize(("is_saved", "gaps"), [(True, {}), (False, {"topics": "topics could not be listed"})])
def test_topics_that_may_exist_are_not_said_to_be_missing(is_saved, gaps):
    text = '[[topology.subtopology]]\nsources = ["gone"]\n'
    observed = given_topology(text, replace(SNAPSHOT, gaps=gaps), is_saved=is_saved)
    said = "--topology names topics that are not in the snapshot: gone; they count as empty"
    assert observed.assumed["topology"] == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "describes no subtopology"),
        ("{ no", "neither the output of Java's Topology.describe() nor TOML"),
        ("Sub-topology: 1\n", "numbered from 0 without a gap"),
        ("Topology: fast:\n Sub-topology: 0\n", "the named topology fast"),
        (
            "Sub-topology: 0\n Source: s (topics: a[)\n",
            "the topic pattern 'a[' is not a valid Python regular expression",
        ),
        ("[[topology.subtopology]]\nsources = []", "subtopology 0: sources = []: must be"),
        ('[[topology.subtopology]]\nsources = "a"', "sources = 'a': must be a list"),
        ('[[topology.subtopology]]\nsources = ["a"]\nstores = [1]', "stores has 1; write"),
        (
            '[[topology.subtopology]]\nsources = ["a"]\nstores = [{ name = "s", source = 1 }]',
            """stores has {'name': 's', 'source': 1}; write "NAME", """,
        ),
    ],
)
def test_a_description_that_makes_no_sense_is_refused_by_its_name(text, said):
    with pytest.raises(ConfigError) as refused:
        given_topology(text, SNAPSHOT, "t.txt")
    assert "t.txt" in str(refused.value)
    assert said in str(refused.value)


def test_a_group_shows_sources_state_and_changelog():
    group = scaled_out()
    group.add(3).topics = ("orders", "clicks")
    group.rebalance()
    observed = inferred_topology(group.decoded())
    assert observed.shape == shape()
    assert observed.assumed["changelog of totals"].startswith("subtopology 0: it has state, and 6 tasks")
    assert observed.assumed["topic clicks"] == "subscribed, and no assigned task reads it; its tasks are left out"


def test_a_subtopology_without_state_is_seen_as_stateless():
    group = SeenGroup(shape(stateless=True), {"orders": 4, "clicks": 3})
    for number in (1, 2):
        group.add(number)
    group.settle()
    assert inferred_topology(group.decoded()).shape == shape(stateless=True)


def two_stateful(orders: int, clicks: int, changelogs: dict[str, int]):
    both = TopologyShape(
        (SubtopologyShape(("orders",), (Store("totals"),)), SubtopologyShape(("clicks",), (Store("visits"),)))
    )
    group = SeenGroup(both, {"orders": orders, "clicks": clicks})
    group.add(1)
    group.settle()
    group.rebalance()  # now it tells of its state
    counts = {"orders": orders, "clicks": clicks, **changelogs}
    return inferred_topology(decode_group(replace(group.snapshot(), partition_counts=counts)))


def stores(observed):
    return [[store.name for store in sub.stores] for sub in observed.shape.subtopologies]


def test_changelogs_go_where_their_number_of_partitions_fits():
    observed = two_stateful(4, 3, {"app-visits-changelog": 3, "app-totals-changelog": 4, "app-old-changelog": 9})
    assert stores(observed) == [["totals"], ["visits"]]
    assert not any("by order" in why for why in observed.assumed.values())
    assert observed.assumed["changelog of old"].startswith("left out")


def test_a_changelog_that_fits_twice_is_assigned_by_order_and_called_a_guess():
    observed = two_stateful(4, 4, {"app-S-0000000009-changelog": 4, "app-S-0000000002-changelog": 4})
    assert stores(observed) == [["S-0000000002"], ["S-0000000009"]]
    assert "one of 0, 1 by order" in observed.assumed["changelog of S-0000000002"]


def test_state_without_a_visible_changelog_counts_as_state():
    observed = two_stateful(4, 3, {})
    assert stores(observed) == [[UNSEEN_STORE], [UNSEEN_STORE]]
    assert observed.assumed["state of subtopology 1"] == (
        "no changelog of it is seen, so its lags are not known and count as 0; "
        "if it is a table of a source topic, describe it in TOML with its source"
    )
    assert observed.assumed["topology"].endswith("; which stores are tables of source topics is not seen")


def test_a_repartition_topic_names_the_store_behind_it():
    topology = TopologyShape(
        (
            SubtopologyShape(("orders",), (Store("a"),)),
            SubtopologyShape(("app-totals-repartition",), (Store("totals"),)),
        )
    )
    group = SeenGroup(topology, {"orders": 4, "app-totals-repartition": 4})
    group.add(1)
    group.settle()
    counts = {**group.counts, CHANGELOG: 4, "app-zz-changelog": 4}
    observed = inferred_topology(decode_group(replace(group.snapshot(), partition_counts=counts)))
    assert stores(observed) == [["zz"], ["totals"]]
    assert observed.assumed["changelog of totals"] == "subtopology 1: it reads app-totals-repartition"


def test_a_group_without_reports_has_the_state_that_its_changelogs_show():
    group = SeenGroup(shape(), {"orders": 4, "clicks": 3})
    group.add(1)
    group.rebalance()
    decoded = group.decoded()
    assert not decoded.processes[0].offset_sums
    observed = inferred_topology(decoded)
    assert observed.shape == shape()
    assert "no member has reported state of it yet" in observed.assumed["changelog of totals"]


def test_named_topologies_are_shown_without_predictions():
    decoded = scaled_out().decoded()
    named = {TaskId(0, 0, "fast"): ()}
    (first, *_) = decoded.members.values()
    members = {first.member_id: replace(first, given=replace(first.given, active=named))}
    observed = inferred_topology(replace(decoded, members=members))
    assert observed.shape == TopologyShape(())
    assert observed.assumed["topology"].startswith("named topologies")
