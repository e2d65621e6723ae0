"""The topology that a member of a streams group declares, and how it differs from the group's."""

from __future__ import annotations

from dataclasses import replace

from kstreams_assign.group.streams_topology import list_streams_differences, streams_topology
from kstreams_assign.model import RepartitionTopic, Store, SubtopologyShape, TopologyShape
from kstreams_assign.wire.streams_structs import CopartitionGroup

APP = "shop"
DEFAULTS = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
SHAPE = TopologyShape(
    (
        SubtopologyShape(
            ("customers",),
            (
                Store("names", source="customers"),
                Store("counts", changelog_config={"min.insync.replicas": 2}),
                Store("scratch", logged=False),
            ),
        ),
    )
)


def test_each_changelog_has_javas_settings_also_a_source_topic() -> None:
    """Java declares a reused source topic as any changelog, and cannot override its settings."""
    (sub,) = streams_topology(SHAPE, APP, 3).subtopologies
    assert sub.source_topics == ("customers",)
    assert {topic.name: dict(topic.topic_configs) for topic in sub.state_changelog_topics} == {
        "customers": DEFAULTS,
        "shop-counts-changelog": {**DEFAULTS, "min.insync.replicas": "2"},
    }


def test_differences_name_topic_and_settings() -> None:
    mine = streams_topology(SHAPE, APP, 1)
    assert list_streams_differences(mine, mine.subtopologies) == []
    (sub,) = mine.subtopologies
    counts = next(topic for topic in sub.state_changelog_topics if topic.name == "shop-counts-changelog")
    others = tuple(
        replace(topic, topic_configs=DEFAULTS) if topic is counts else topic for topic in sub.state_changelog_topics
    )
    default = "cleanup.policy = compact, message.timestamp.type = CreateTime"
    expected = (
        "subtopology 0: settings of shop-counts-changelog: "
        f"{default}, min.insync.replicas = 2 here, {default} in the group"
    )
    assert list_streams_differences(mine, [replace(sub, state_changelog_topics=others)]) == [expected]
    (line,) = list_streams_differences(
        streams_topology(SHAPE, APP, 3), [replace(sub, state_changelog_topics=(counts,))]
    )[1:]
    assert line == "subtopology 0: replication_factor of shop-counts-changelog: 3 here, 1 in the group"
    assert list_streams_differences(mine, []) == ["the group has no subtopology 0"]


def test_joined_topics_are_declared_in_the_order_of_javas_hash_sets() -> None:
    """The brokers compare the order, too. External and internal topics are in one set, and so are all groups."""
    internal = ("shop-joined-repartition", "shop-words-repartition")
    words = SubtopologyShape(
        ("customers", "orders", *internal),
        repartition=tuple(RepartitionTopic(topic) for topic in internal),
        copartition=(("customers", "shop-joined-repartition"), ("orders", "customers", "shop-words-repartition")),
    )
    joins = SubtopologyShape(
        ("clicks", "prices", "purchases", "users"), copartition=(("clicks", "users"), ("prices", "purchases"))
    )
    first, other = streams_topology(TopologyShape((words, joins)), APP, 1).subtopologies
    assert first.copartition_groups == (CopartitionGroup((1, 0), repartition_source_topics=(1, 0)),)
    assert other.copartition_groups == (CopartitionGroup((2, 1)), CopartitionGroup((0, 3)))
