"""Which handler is which subtopology, by what Java prints; and how internal topics get their names."""

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
    ("flows", "said"),
    [
        ([SPLIT], "subtopology 2 reads words; none here reads any of it"),
        (
            [COUNT, Flow.of(["lines", "more"])],
            "subtopology 0 reads lines; the one here that is nearest reads lines, more",
        ),
        ([SPLIT, COUNT, Flow.of(["more"])], "no subtopology of it reads more"),
        ([SPLIT, Flow.of([], ["totals"], [], ["words"])], "stores that lack here: counts; here alone: totals"),
    ],
)
def test_a_difference_is_named(flows, said):
    with pytest.raises(ConfigError, match=said):
        number_flows(flows, WORDS)


def test_internal_topics_get_the_applications_name_on_both_sides():
    split, count = bind_flows([SPLIT, COUNT], "app")
    assert split.sinks == {"words": "app-words-repartition", "seen": "seen"}
    assert count.shape.sources == ("app-words-repartition",)
    assert topology_shape([split, count]).repartition_topics == {
        "app-words-repartition": RepartitionTopic("app-words-repartition")
    }
    assert bind_flows([split, count], "app") == (split, count), "once bound, it stays so"


def test_the_number_of_partitions_may_be_told_by_one_of_several_readers():
    readers = bind_flows([Flow.of([], (), (), [Repartition("words", 3)]), COUNT, SPLIT], "app")
    assert topology_shape(readers).repartition_topics["app-words-repartition"].partitions == 3


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: bind_flows([COUNT, Flow.of(["words"])], "app"),
            "words: named among sources and among repartition_sources",
        ),
        (
            lambda: bind_flows([Flow.of([], (), (), [Repartition("w", n)]) for n in (1, 2)], "app"),
            "repartition topic w: partitions = 1 and 2: must be told alike",
        ),
        (lambda: Flow.of([], pattern="a["), r"sources_pattern = 'a\[': cannot be read"),
        (lambda: Repartition("w", 0), "repartition topic w: partitions = 0: must be"),
        (lambda: Repartition(""), "name = '': must be a non-empty string"),
        (lambda: Flow.of(["a"], [Store("s", source="b")]), "store s: source = 'b': must be one of a"),
        (lambda: Flow.of(["a"], copartitioned=[["a", "b"]]), "copartitioned: b: must be among the sources"),
    ],
)
def test_what_cannot_be_is_refused_by_name(make, said):
    with pytest.raises(ConfigError, match=said):
        make()
