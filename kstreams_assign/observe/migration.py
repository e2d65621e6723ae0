"""From the classic protocol to the streams protocol (KIP-1071), or back: what stands in the way, and what is kept.

Pure. A group changes its protocol only while it has no members; committed offsets and topics stay. What must not live
here: how the facts are read (``insight.migrate``).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kstreams_assign.config import Config
from kstreams_assign.group.streams_settings import SESSION_TIMEOUT, STATIC_MEMBERS_VERSION, ineffective_keys
from kstreams_assign.observe.streams_state import STANDBYS

STANDBYS_MAX = 2
"""Kafka 4.3.1: ``group.streams.max.standby.replicas``."""
SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS_MAX = 45_000, 60_000
"""Kafka 4.3.1: ``group.streams.session.timeout.ms``, ``group.streams.max.session.timeout.ms``."""
SHOWN = 5


@dataclass(frozen=True, slots=True)
class MigrationFacts:
    """What is known of a group. ``kind``: the brokers' word for its type, ``None`` if there is no such group.

    ``members`` are named as the brokers do; of a group that is neither classic nor a streams group only ``has_members``
    is known. ``committed``: partitions with a committed offset. ``internal_topics`` are
    those named after the group. ``group_settings`` are the brokers' for a streams group. ``config`` and ``patterns``
    (of sources) come from a file of settings, if one was given. ``heartbeat_version``: the newest one of
    StreamsGroupHeartbeat that the brokers know.
    """

    group: str
    to: str
    kind: str | None
    members: Sequence[str] = ()
    committed: int = 0
    internal_topics: Sequence[str] = ()
    group_settings: Mapping[str, str] = field(default_factory=dict)
    config: Config | None = None
    patterns: Sequence[str] = ()
    heartbeat_version: int = 0
    has_members: bool = False


@dataclass(frozen=True, slots=True)
class Migration:
    """Sentences: what stands in the ``way``, what to do ``before`` the first member starts, what is ``kept``."""

    way: tuple[str, ...]
    before: tuple[str, ...]
    kept: tuple[str, ...]


def check_migration(facts: MigrationFacts) -> Migration:
    """Return what a change of the protocol needs."""
    return Migration(tuple(_way(facts)), tuple(_before(facts)), tuple(_kept(facts)))


def _way(facts: MigrationFacts) -> list[str]:
    way = [] if facts.kind in (None, "classic", "streams") else _in_the_way_of_another_type(facts)
    if facts.members and facts.kind != facts.to:
        more = f" and {len(facts.members) - SHOWN} more" if len(facts.members) > SHOWN else ""
        count = "1 member is" if len(facts.members) == 1 else f"{len(facts.members)} members are"
        way.append(f"{count} in the group: {', '.join(facts.members[:SHOWN])}{more}; stop all members, Java's too")
    if facts.to == "streams":
        way += _in_the_way_of_streams(facts)
    return way


def _in_the_way_of_another_type(facts: MigrationFacts) -> list[str]:
    """Brokers (4.3.1) replace an empty group of consumers when a classic member joins, and no other."""
    of_type = f"the group is of the type {facts.kind}"
    if facts.has_members:
        return [f"{of_type}: its members are no members of Kafka Streams"]
    if facts.kind != "consumer":
        return [f"{of_type}: delete it, or change application_id"]
    if facts.to == "classic":
        return []
    return [f'{of_type}, without members: start one process once with group_protocol = "classic", and close it']


def _in_the_way_of_streams(facts: MigrationFacts) -> list[str]:
    config = facts.config
    way = [
        f"a subtopology reads topics that match {pattern}: list the topics, as streams groups have no patterns"
        for pattern in facts.patterns
    ]
    if config is None:
        return way
    if config.group_instance_id is not None and facts.heartbeat_version < STATIC_MEMBERS_VERSION:
        way.append(
            f"group_instance_id = {config.group_instance_id!r}: remove it, or upgrade the brokers to Kafka 4.4 or "
            "later, as older ones have no static members in streams groups"
        )
    if config.user_data != "apache":
        way.append(f"user_data = {config.user_data!r}: remove it, as members of a streams group send none")
    if config.num_standby_replicas > STANDBYS_MAX:
        way.append(
            f"num_standby_replicas = {config.num_standby_replicas}: the brokers allow {STANDBYS_MAX} standbys by "
            "default (group.streams.max.standby.replicas)"
        )
    if config.session_timeout_ms > max(SESSION_TIMEOUT_MS_MAX, _session_timeout_ms(facts.group_settings)):
        way.append(
            f"session_timeout_ms = {config.session_timeout_ms}: the brokers allow {SESSION_TIMEOUT_MS_MAX} by default "
            f"(group.streams.max.session.timeout.ms); set at most that, or raise it and the group's {SESSION_TIMEOUT}"
        )
    return way


def _before(facts: MigrationFacts) -> list[str]:
    if facts.kind == facts.to == "streams":
        keeps = "keeps its topology; to run another one, go to classic first"
        return [f"nothing: the group uses the streams protocol and {keeps}"]
    if facts.kind == facts.to:
        return ["nothing: the group uses the classic protocol"]
    change = f'in each member: group_protocol = "{facts.to}" (Java: group.protocol={facts.to})'
    if facts.to == "classic":
        return [change, "in each member: num_standby_replicas and the other settings of the leader"]
    config = facts.config
    wanted = {} if config is None else _group_settings(config, facts.group_settings)
    settings = [f"at the brokers: {_alter(facts.group, wanted)}"] if wanted else []
    without = [] if config is None else ineffective_keys(config)
    drop = [f"these settings have no effect any more: {', '.join(without)}"] if without else []
    return [*settings, change, *drop]


def _group_settings(config: Config, now: Mapping[str, str]) -> dict[str, str]:
    """Return what the group has to have at the brokers so that it works as the settings say."""
    wanted = {}
    standbys = min(config.num_standby_replicas, STANDBYS_MAX)
    if str(standbys) != now.get(STANDBYS, "0"):
        wanted[STANDBYS] = str(standbys)
    if _session_timeout_ms(now) < config.session_timeout_ms <= SESSION_TIMEOUT_MS_MAX:
        wanted[SESSION_TIMEOUT] = str(config.session_timeout_ms)
    return wanted


def _session_timeout_ms(group_settings: Mapping[str, str]) -> int:
    return int(group_settings.get(SESSION_TIMEOUT, SESSION_TIMEOUT_MS))


def _alter(group: str, settings: Mapping[str, str]) -> str:
    pairs = ",".join(f"{name}={value}" for name, value in settings.items())
    return f"kafka-configs.sh --alter --entity-type groups --entity-name {shlex.quote(group)} --add-config {pairs}"


def _kept(facts: MigrationFacts) -> list[str]:
    if facts.kind is None:
        return ["nothing: there is no such group yet"]
    topics = facts.internal_topics
    return [
        f"committed offsets of {_counted(facts.committed, 'partition')}",
        f"{_counted(len(topics), 'internal topic')}: {', '.join(topics)}" if topics else "no internal topics",
        "state directories: a process finds the state of its tasks on its disk",
    ]


def _counted(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"
