"""Partition counts of internal topics: declared, derived or contradicting, as Kafka's ``RepartitionTopics`` decides."""

from __future__ import annotations

import re

import pytest

from kstreams_assign.errors import ConfigError, TopologyMismatch
from kstreams_assign.model import RepartitionTopic, Store, SubtopologyShape, TopologyShape
from kstreams_assign.topology.flows import Flow, bind_flows, topology_shape
from kstreams_assign.topology.internal import (
    internal_topics_of,
    is_internal,
    missing_sources,
    refuse_wrong_counts,
    refuse_wrong_topology,
    repartition_counts,
    resolve_patterns,
    subscription_pattern,
)


def reads(*topics: str, to: tuple[str, ...] = (), declared: dict[str, int] | None = None, joins: bool = False):
    """Return a subtopology; topics with an upper-case name are repartition topics."""
    internal = tuple(RepartitionTopic(t, (declared or {}).get(t)) for t in topics if t.isupper())
    return SubtopologyShape(topics, repartition=internal, sinks=to, copartition=(topics,) if joins else ())


def counts(*subtopologies: SubtopologyShape, **there: int) -> dict[str, int]:
    return repartition_counts(TopologyShape(subtopologies), there)


def test_a_repartition_topic_has_as_many_partitions_as_the_largest_source_of_its_writers():
    assert counts(reads("a", "b", to=("R",)), reads("c", to=("R",)), reads("R"), a=3, b=4, c=2) == {"R": 4}


def test_a_declared_count_wins():
    assert counts(reads("a", to=("R",)), reads("R", declared={"R": 7}), a=3) == {"R": 7}


def test_counts_are_derived_step_by_step_along_a_chain():
    chain = [reads("U"), reads("T", to=("U",)), reads("S", to=("T",)), reads("a", to=("S",))]
    assert counts(*chain, a=5) == {"S": 5, "T": 5, "U": 5}


def test_a_subtopology_that_feeds_itself_counts_by_its_other_sources():
    assert counts(reads("a", "R", to=("R",)), a=2) == {"R": 2}


def test_a_repartition_topic_without_a_writer_is_refused_by_name():
    with pytest.raises(TopologyMismatch, match=r"topic R: its number of partitions is unknown; list it in the sinks"):
        counts(reads("a"), reads("R"), a=2)


def test_a_repartition_topic_whose_writer_has_nothing_to_read_yet_is_refused_with_what_to_create():
    with pytest.raises(TopologyMismatch, match=r"topic R: .* is unknown; create a topic that the subtopology that wr"):
        counts(reads(to=("R",)), reads("R"), a=2)


def test_a_joined_repartition_topic_follows_the_source_that_it_is_joined_with():
    assert counts(reads("a", to=("R",)), reads("R", "b", joins=True), a=3, b=6) == {"R": 6}


def test_joined_repartition_topics_all_get_the_largest_or_the_declared_count():
    writers = [reads("a", to=("R",)), reads("b", to=("S",))]
    assert counts(*writers, reads("R", "S", joins=True), a=3, b=6) == {"R": 6, "S": 6}
    assert counts(*writers, reads("R", "S", joins=True, declared={"R": 2}), a=3, b=6) == {"R": 2, "S": 2}


@pytest.mark.parametrize(
    ("subtopologies", "there", "said"),
    [
        ([reads("a", "b", joins=True)], {"a": 4, "b": 3}, "a has 4, b has 3"),
        (
            [reads("a", to=("R",)), reads("R", "b", joins=True, declared={"R": 5})],
            {"a": 4, "b": 3},
            "R has 5, b has 3",
        ),
        (
            [reads("a", to=("R", "S")), reads("R", "S", joins=True, declared={"R": 5, "S": 2})],
            {"a": 4},
            "R has 5, S has 2",
        ),
    ],
)
def test_joined_topics_with_different_counts_are_named_with_both_numbers(subtopologies, there, said):
    with pytest.raises(TopologyMismatch, match=f"copartitioned topics with different numbers of partitions: {said}"):
        counts(*subtopologies, **there)


def test_sources_that_are_not_joined_may_differ():
    assert counts(reads("a", "b"), a=4, b=3) == {}


def test_an_internal_topic_with_another_count_is_named_with_both_numbers():
    with pytest.raises(
        TopologyMismatch, match="Existing internal topic R has invalid partitions: expected: 4; actual: 2"
    ):
        refuse_wrong_counts({"R": 4, "S": 1}, {"R": 2, "S": 1})
    refuse_wrong_counts({"R": 4}, {})


def test_missing_external_topics_are_listed_and_internal_topics_are_not():
    topology = TopologyShape((reads("a", "b", to=("R",)), reads("R")))
    assert missing_sources(topology, {"a": 0}) == ["a", "b"]
    assert missing_sources(topology, {"a": 1, "b": 1}) == []


def test_an_internal_topic_is_recognised_by_its_name():
    assert is_internal("app", "app-words-repartition")
    assert is_internal("app", "app-words-changelog")
    assert not is_internal("app", "app-words")
    assert not is_internal("app", "other-words-changelog")
    assert not is_internal("app", "app-changelog"), "no store has an empty name"


def test_an_internal_topic_is_of_the_group_with_the_longest_name():
    topics = ["app-eu-sums-changelog", "app-sums-changelog", "app-eu-words-repartition", "other"]
    assert internal_topics_of("app", topics, ["app"]) == [
        "app-eu-sums-changelog",
        "app-eu-words-repartition",
        "app-sums-changelog",
    ]
    assert internal_topics_of("app", topics, ["app", "app-eu", "app-sums"]) == ["app-sums-changelog"]
    assert internal_topics_of("app-eu", topics, ["app", "app-eu"]) == topics[0:3:2]


PATTERNED = TopologyShape((SubtopologyShape(("a.b",), pattern="region-.*"), SubtopologyShape(("b",))))


def test_a_pattern_matches_whole_names_and_no_internal_topic():
    topics = ["region-eu", "my-region-eu", "region-", "region-app", "b", "a.b", "other"]
    shape = resolve_patterns(PATTERNED, "region-app", [*topics, "region-app-x-changelog", "region-app-x-repartition"])
    assert shape.subtopologies[0].sources == ("a.b", "region-", "region-app", "region-eu")
    assert shape.subtopologies[1] == PATTERNED.subtopologies[1]


def test_a_pattern_matches_no_topic_of_the_brokers():
    everything = TopologyShape((SubtopologyShape((), pattern=".*"),))
    topics = ["__consumer_offsets", "__transaction_state", "__share_group_state", "__mine", "a"]
    assert resolve_patterns(everything, "app", topics).subtopologies[0].sources == ("__mine", "a")


def test_a_topic_that_two_subtopologies_would_read_by_a_pattern_is_refused():
    for pattern in ("reg.*", "b"):
        twice = TopologyShape((*PATTERNED.subtopologies, SubtopologyShape((), pattern=pattern)))
        with pytest.raises(TopologyMismatch, match="matched by a pattern and read by another subtopology"):
            resolve_patterns(twice, "app", ["region-eu", "b"])


def test_a_subscription_by_pattern_has_the_named_topics_too():
    pattern = subscription_pattern(PATTERNED)
    assert pattern is not None
    topics = [t for t in ("a.b", "axb", "b", "region-eu", "my-region-eu", "bb") if re.fullmatch(pattern, t)]
    assert topics == ["a.b", "b", "region-eu"]
    assert subscription_pattern(TopologyShape((reads("a"),))) is None


@pytest.mark.parametrize(
    ("application_id", "store", "words"),
    [("an app", "s", "w"), ("app", "two words", "w"), ("app", "s", "a/b"), ("ä", "s", "w"), ("app", "s" * 250, "w")],
)
def test_an_invalid_topic_name_is_refused_with_the_name_and_what_is_allowed(application_id, store, words):
    internal = RepartitionTopic(f"{application_id}-{words}-repartition")
    shape = TopologyShape((SubtopologyShape(("in",), (Store(store),), (internal,)),))
    with pytest.raises(ConfigError, match=r"application_id = .*: '.*' cannot be a topic's name; use only letters"):
        refuse_wrong_topology(shape, application_id)


def test_stores_without_a_changelog_may_have_any_name():
    stores = (Store("no changelog", logged=False), Store("a table", source="in"), Store("s.t_o-R3"))
    refuse_wrong_topology(TopologyShape((SubtopologyShape(("in",), stores),)), "app")
    refuse_wrong_topology(TopologyShape((SubtopologyShape(("in",)),)), "an app")


@pytest.mark.parametrize(
    ("subtopologies", "text"),
    [
        (
            (["in"], ["in"]),
            "^topology: topic in is read by subtopologies 0 and 1; a topic has one reader: read it in one subtopology",
        ),
        ((["a"], ["in", "out"], ["in"]), "topic in is read by subtopologies 1 and 2; .* call both functions there$"),
        ((["in", "in"],), "subtopology 0 lists topic in twice; list it once"),
    ],
)
def test_a_topic_that_is_read_twice_is_refused_with_its_readers(subtopologies, text):
    shape = TopologyShape(tuple(SubtopologyShape(tuple(sources)) for sources in subtopologies))
    with pytest.raises(ConfigError, match=text):
        refuse_wrong_topology(shape, "app")


def test_a_repartition_topic_has_one_reader_by_its_short_or_full_name():
    for second in (Flow.of([], repartition_sources=["w"]), Flow.of(["app-w-repartition"])):
        flows = bind_flows([Flow.of([], repartition_sources=["w"]), second], "app")
        with pytest.raises(ConfigError, match="topic app-w-repartition is read by subtopologies 0 and 1"):
            refuse_wrong_topology(topology_shape(flows), "app")


def test_a_named_topic_that_the_pattern_of_another_subtopology_matches_is_refused():
    shape = TopologyShape((SubtopologyShape((), pattern="reg.*"), SubtopologyShape(("region",))))
    with pytest.raises(ConfigError, match="region is read by subtopology 1, and the pattern of subtopology 0 matches"):
        refuse_wrong_topology(shape, "app")


def test_a_pattern_may_match_its_own_topics_and_internal_topics_of_others():
    own = SubtopologyShape(("app-a",), pattern="app-.*")
    refuse_wrong_topology(TopologyShape((own, SubtopologyShape(("app-w-repartition",)))), "app")
