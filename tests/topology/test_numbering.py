"""Handlers get the subtopology numbers of Java's description; internal topics get their full names."""

from __future__ import annotations

import pytest

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import RepartitionTopic, Store
from kstreams_assign.topology.flows import Flow, Repartition, bind_flows, topology_shape
from kstreams_assign.topology.numbering import number_flows, order_flows

WORDS = """Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [lines])
      --> KSTREAM-FLATMAP-0000000001
    Processor: KSTREAM-FLATMAP-0000000001 (stores: [])
      --> words-repartition-filter
      <-- KSTREAM-SOURCE-0000000000
    Sink: words-repartition-sink (topic: words-repartition)
      <-- words-repartition-filter

  Sub-topology: 1 for global store (will not generate tasks)
    Source: prices (topics: [prices])
      --> keep
    Processor: keep (stores: [prices-store])
      --> none
      <-- prices
  Sub-topology: 2
    Source: words-repartition-source (topics: [words-repartition])
      --> KSTREAM-AGGREGATE-0000000002
    Processor: KSTREAM-AGGREGATE-0000000002 (stores: [counts])
      --> none
      <-- words-repartition-source
"""
SPLIT = Flow.of(["lines"], sinks=["words", "seen"])
COUNT = Flow.of([], ["counts"], ["word-counts"], ["words"])


def test_handlers_are_numbered_by_what_they_read():
    assert number_flows([COUNT, SPLIT], WORDS) == (1, None, 0)
    assert [flow.names for flow in order_flows([COUNT, SPLIT], (1, None, 0))] == [{"lines"}, set(), {"words"}]


@pytest.mark.parametrize(
    ("flows", "message"),
    [
        ([SPLIT], "subtopology 2 reads words; no subtopology here reads any of these"),
        ([COUNT, Flow.of(["lines", "more"])], "subtopology 0 reads lines; the closest here reads lines, more"),
        ([SPLIT, COUNT, Flow.of(["more"])], "no subtopology reads more"),
        (
            [SPLIT, Flow.of([], ["totals"], [], ["words"])],
            "stores only in the description: counts; stores only here: totals",
        ),
    ],
)
def test_a_difference_is_named(flows, message):
    with pytest.raises(ConfigError, match=message):
        number_flows(flows, WORDS)


def test_internal_topics_get_the_applications_name_on_both_sides():
    split, count = bind_flows([SPLIT, COUNT], "app")
    assert split.sinks == {"words": "app-words-repartition", "seen": "seen"}
    assert count.shape.sources == ("app-words-repartition",)
    assert topology_shape([split, count]).repartition_topics == {
        "app-words-repartition": RepartitionTopic("app-words-repartition")
    }
    assert bind_flows([split, count], "app") == (split, count), "once bound, it stays so"


def test_any_reader_of_a_repartition_topic_may_declare_its_number_of_partitions():
    readers = bind_flows([Flow.of([], (), (), [Repartition("words", 3)]), COUNT, SPLIT], "app")
    assert topology_shape(readers).repartition_topics["app-words-repartition"].partitions == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: bind_flows([COUNT, Flow.of(["words"])], "app"),
            "words: named among sources and among repartition_sources",
        ),
        (
            lambda: bind_flows([Flow.of([], (), (), [Repartition("w", n)]) for n in (1, 2)], "app"),
            "repartition topic w: partitions = 1 and 2: must be the same",
        ),
        (lambda: Flow.of([], pattern="a["), r"sources_pattern = 'a\[': is not a valid Python regular expression"),
        (lambda: Repartition("w", 0), "repartition topic w: partitions = 0: must be"),
        (lambda: Repartition(""), "name = '': must be a non-empty string"),
        (lambda: Flow.of(["a"], [Store("s", source="b")]), "store s: source = 'b': must be one of a"),
        (lambda: Flow.of(["a"], copartitioned=[["a", "b"]]), "copartitioned: b: must be among the sources"),
    ],
)
def test_invalid_declarations_are_refused_by_name(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
