"""The topology that a member of a streams group (KIP-1071) declares, and how it differs from the group's.

The broker creates internal topics from it, and refuses a member with another one. Names, numbers and settings are those
that Java's ``StreamThread`` sends for the same topology, so Java members may share the group. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from kstreams_assign.errors import ConfigError, TopologyMismatch
from kstreams_assign.group.copartition_order import java_copartition_groups
from kstreams_assign.model import RepartitionTopic, SubtopologyShape, TopologyShape
from kstreams_assign.topology.changelog_settings import CHANGELOG_SETTINGS, changelog_settings
from kstreams_assign.topology.internal import REPARTITION_SETTINGS
from kstreams_assign.wire.streams_describe import DescribedStreamsGroup, DescribedStreamsMember
from kstreams_assign.wire.streams_heartbeat import StreamsTopology
from kstreams_assign.wire.streams_structs import CopartitionGroup, StreamsSubtopology, TopicInfo

TO_CHANGE_IT = (
    "A streams group never changes its topology. To run another one, end all members, start the new version once with "
    'group_protocol = "classic", close it, and start it with group_protocol = "streams"; committed offsets and state '
    "stay"
)
"""Kafka 4.3.1 and 4.4.0 refuse each topology but the first one, also in an empty group."""


def refuse_patterns(topology: TopologyShape) -> None:
    """Raise ``ConfigError`` for a source pattern, which the brokers refuse (4.3.1)."""
    for number, sub in enumerate(topology.subtopologies):
        if sub.pattern is not None:
            raise ConfigError(
                f"topology: subtopology {number} reads topics that match {sub.pattern}: streams groups have no "
                'patterns; list the topics, or set group_protocol = "classic"'
            )


def streams_topology(topology: TopologyShape, application_id: str, replication_factor: int) -> StreamsTopology:
    """Return the topology as a member declares it when it joins. ``replication_factor``: of topics to be created.

    A source topic that is a store's changelog has the default settings, whatever the topic's own are.
    """
    settings = changelog_settings(topology, application_id)
    internal = topology.repartition_topics
    copartitioned = java_copartition_groups(group for sub in topology.subtopologies for group in sub.copartition)

    def changelog(topic: str) -> TopicInfo:
        return TopicInfo(topic, 0, replication_factor, _sorted(settings.get(topic, CHANGELOG_SETTINGS)))

    def repartition(declared: RepartitionTopic) -> TopicInfo:
        return TopicInfo(declared.topic, declared.partitions or 0, replication_factor, _sorted(REPARTITION_SETTINGS))

    return StreamsTopology(
        0,
        tuple(
            StreamsSubtopology(
                str(number),
                source_topics=_external(sub),
                state_changelog_topics=tuple(
                    changelog(topic) for topic in sorted(s.changelog(application_id) for s in sub.stores if s.logged)
                ),
                repartition_sink_topics=tuple(sorted(internal.keys() & set(sub.sinks))),
                repartition_source_topics=tuple(
                    repartition(each) for each in sorted(sub.repartition, key=lambda each: each.topic)
                ),
                copartition_groups=tuple(_copartitioned(sub, copartitioned)),
            )
            for number, sub in enumerate(topology.subtopologies)
        ),
    )


def _external(sub: SubtopologyShape) -> tuple[str, ...]:
    internal = {each.topic for each in sub.repartition}
    return tuple(sorted(topic for topic in sub.sources if topic not in internal))


def _copartitioned(sub: SubtopologyShape, groups: Iterable[Sequence[str]]) -> Iterator[CopartitionGroup]:
    """Return those of the groups whose topics this subtopology reads."""
    external = {topic: index for index, topic in enumerate(_external(sub))}
    internal = {topic: index for index, topic in enumerate(sorted(each.topic for each in sub.repartition))}
    for group in groups:
        if set(group) <= external.keys() | internal.keys():
            yield CopartitionGroup(
                source_topics=tuple(external[topic] for topic in group if topic in external),
                repartition_source_topics=tuple(internal[topic] for topic in group if topic in internal),
            )


def _sorted(settings: Mapping[str, str]) -> dict[str, str]:
    return dict(sorted(settings.items()))


def refuse_other_topology(
    mine: StreamsTopology, group: DescribedStreamsGroup, is_own: Callable[[DescribedStreamsMember], bool]
) -> None:
    """Raise ``TopologyMismatch``, with each difference and the way out, if the group has another topology.

    ``is_own``: whether a member is an earlier run of this process.
    """
    topology = group.topology
    if topology is None or topology.subtopologies is None:
        return
    if differences := list_streams_differences(mine, topology.subtopologies):
        raise TopologyMismatch(
            f"streams group {group.group_id} has another topology than this member: {'; '.join(differences)}. "
            f"{_which_members(group.members, is_own)}{TO_CHANGE_IT}"
        )


def _which_members(members: Iterable[DescribedStreamsMember], is_own: Callable[[DescribedStreamsMember], bool]) -> str:
    own = [is_own(member) for member in members]
    if not own:
        return ""
    if all(own):
        return (
            "Its only member is the last run of this process, which the group keeps until its session ends "
            "(streams.session.timeout.ms). "
        )
    return "Run the same topology in all members, or run another one in all of them. "


def list_streams_differences(mine: StreamsTopology, group: Iterable[StreamsSubtopology]) -> list[str]:
    """Return in words how the group's topology, as brokers describe it, differs from this member's.

    Descriptions have no copartition groups, and partitions of internal topics as they were resolved.
    """
    theirs = {sub.subtopology_id: sub for sub in group}
    own = {sub.subtopology_id: sub for sub in mine.subtopologies}
    lines = [f"the group has no subtopology {number}" for number in sorted(own.keys() - theirs.keys())]
    lines += [f"the group has a subtopology {number} more" for number in sorted(theirs.keys() - own.keys())]
    for number in sorted(own.keys() & theirs.keys()):
        lines += (f"subtopology {number}: {line}" for line in _differences(own[number], theirs[number]))
    return lines


def _differences(mine: StreamsSubtopology, theirs: StreamsSubtopology) -> Iterator[str]:
    named = (
        ("source topics", mine.source_topics, theirs.source_topics),
        ("changelogs", _names(mine.state_changelog_topics), _names(theirs.state_changelog_topics)),
        (
            "repartition topics to read",
            _names(mine.repartition_source_topics),
            _names(theirs.repartition_source_topics),
        ),
        ("repartition topics to write", mine.repartition_sink_topics, theirs.repartition_sink_topics),
    )
    for what, own, other in named:
        if set(own) != set(other):
            yield f"{what}: {_listed(own)} here, {_listed(other)} in the group"
    topics = {each.name: each for each in (*theirs.state_changelog_topics, *theirs.repartition_source_topics)}
    for topic in (*mine.state_changelog_topics, *mine.repartition_source_topics):
        other_topic = topics.get(topic.name)
        if other_topic is None:
            continue
        if dict(topic.topic_configs) != dict(other_topic.topic_configs):
            yield f"settings of {topic.name}: {_settings(topic)} here, {_settings(other_topic)} in the group"
        if topic.replication_factor != other_topic.replication_factor:
            yield (
                f"replication_factor of {topic.name}: {topic.replication_factor} here, "
                f"{other_topic.replication_factor} in the group"
            )


def _names(topics: Iterable[TopicInfo]) -> tuple[str, ...]:
    return tuple(topic.name for topic in topics)


def _settings(topic: TopicInfo) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sorted(topic.topic_configs.items())) or "none"


def _listed(topics: Iterable[str]) -> str:
    return ", ".join(sorted(topics)) or "none"
