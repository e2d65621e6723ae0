"""The topology that a member of a streams group declares, and how it differs from the group's."""

from __future__ import annotations

from dataclasses import replace

from kstreams_assign.group.streams_topology import list_streams_differences, streams_topology
from kstreams_assign.model import Store, SubtopologyShape, TopologyShape

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
