"""Settings of changelog topics: what a store may declare, and with what the leader creates its changelog.

Pure: creating topics does not belong here (``worker.leading``). Names and types are Kafka's (``TopicConfig``,
``LogConfig``); whether a value is in the broker's range, the broker decides. Kafka's
``UnwindowedUnversionedChangelogTopicConfig`` has the defaults, and what a store declares overrides them.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import Store, TopologyShape

CHANGELOG_SETTINGS: Mapping[str, str] = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
"""Settings of a changelog whose store declares none."""

_NUMBER, _TRUTH, _TEXT = "a whole number", "true or false", "a string that is not empty"
_FRACTION = "a number from 0 to 1"

TOPIC_SETTINGS: Mapping[str, str] = {
    "cleanup.policy": _TEXT,
    "compression.gzip.level": _NUMBER,
    "compression.lz4.level": _NUMBER,
    "compression.type": _TEXT,
    "compression.zstd.level": _NUMBER,
    "delete.retention.ms": _NUMBER,
    "file.delete.delay.ms": _NUMBER,
    "flush.messages": _NUMBER,
    "flush.ms": _NUMBER,
    "follower.replication.throttled.replicas": _TEXT,
    "index.interval.bytes": _NUMBER,
    "leader.replication.throttled.replicas": _TEXT,
    "local.retention.bytes": _NUMBER,
    "local.retention.ms": _NUMBER,
    "max.compaction.lag.ms": _NUMBER,
    "max.message.bytes": _NUMBER,
    "message.downconversion.enable": _TRUTH,
    "message.format.version": _TEXT,
    "message.timestamp.after.max.ms": _NUMBER,
    "message.timestamp.before.max.ms": _NUMBER,
    "message.timestamp.difference.max.ms": _NUMBER,
    "message.timestamp.type": _TEXT,
    "min.cleanable.dirty.ratio": _FRACTION,
    "min.compaction.lag.ms": _NUMBER,
    "min.insync.replicas": _NUMBER,
    "preallocate": _TRUTH,
    "remote.log.copy.disable": _TRUTH,
    "remote.log.delete.on.disable": _TRUTH,
    "remote.storage.enable": _TRUTH,
    "retention.bytes": _NUMBER,
    "retention.ms": _NUMBER,
    "segment.bytes": _NUMBER,
    "segment.index.bytes": _NUMBER,
    "segment.jitter.ms": _NUMBER,
    "segment.ms": _NUMBER,
    "unclean.leader.election.enable": _TRUTH,
}
"""A topic's setting, of Kafka 2.4 to 4.3 -> what its value is."""

_FIXED: Mapping[str, str] = {
    "cleanup.policy": "without compaction, or with deletion by age, a restored store would lack entries; to let "
    "entries expire, delete them with tombstones",
    "message.timestamp.type": "with another time than the writer's, a restored store would have other timestamps",
}
"""Settings that may only have the default's value -> why."""


def refuse_changelog_config(store: Store) -> None:
    """Raise ``ConfigError``, with store, setting, value and fix, for settings that a changelog cannot have."""
    config = store.changelog_config
    key = f"store {store.name}: changelog_config"
    if not isinstance(config, Mapping):
        raise ConfigError(f"{key} = {config!r}: must map names of topic settings to values")
    if config and (store.source or not store.logged):
        has_none = f"its changelog is the source topic {store.source}" if store.source else "it has no changelog"
        raise ConfigError(f"{key} = {dict(config)!r}: must be left out, as {has_none}")
    for name, value in config.items():
        if name not in TOPIC_SETTINGS:
            raise ConfigError(f"{key}: {name!r}: no such setting of a topic; {_hint(str(name))}")
        if not _fits(TOPIC_SETTINGS[name], _text(value)):
            raise ConfigError(f"{key}: {name} = {value!r}: must be {TOPIC_SETTINGS[name]}")
        if name in _FIXED and _text(value) != CHANGELOG_SETTINGS[name]:
            raise ConfigError(f"{key}: {name} = {value!r}: must be {CHANGELOG_SETTINGS[name]}: {_FIXED[name]}")


def refuse_too_few_replicas(topology: TopologyShape, replication_factor: int) -> None:
    """Raise ``ConfigError`` for a changelog that has fewer replicas than a write needs.

    Brokers since Kafka 3.7 lower the number to that of the replicas (``Partition.effectiveMinIsr``, KAFKA-15583).
    """
    for store in _with_topics(topology):
        needed = int(_texts(store).get("min.insync.replicas", "1"))
        if 0 < replication_factor < needed:
            raise ConfigError(
                f"store {store.name}: changelog_config: min.insync.replicas = {needed}: must be at most "
                f"replication_factor = {replication_factor}: brokers before Kafka 3.7 accept no write to such a "
                "changelog, later ones take the number of replicas instead"
            )


def changelog_settings(topology: TopologyShape, application_id: str) -> dict[str, dict[str, str]]:
    """Return the settings with which each changelog topic is created, by topic."""
    return {
        store.changelog(application_id): {**CHANGELOG_SETTINGS, **_texts(store)} for store in _with_topics(topology)
    }


def declared_settings(topology: TopologyShape, application_id: str) -> dict[str, dict[str, str]]:
    """Return the settings that stores declare for their changelogs, by topic; only those topics that have any."""
    declared = {store.changelog(application_id): _texts(store) for store in _with_topics(topology)}
    return {topic: settings for topic, settings in declared.items() if settings}


def differences(declared: Mapping[str, Mapping[str, str]], actual: Mapping[str, Mapping[str, str | None]]) -> list[str]:
    """Return a warning for each existing changelog whose own settings differ from the declared ones.

    ``actual``: topic -> the settings that override the broker's defaults.
    """
    warnings = []
    for topic, settings in sorted(declared.items()):
        own = actual.get(topic)
        wrong = [] if own is None else [name for name, value in settings.items() if own.get(name) != value]
        if own is not None and wrong:
            listed = ", ".join(f"{name} = {own.get(name, 'not set')} (declared: {settings[name]})" for name in wrong)
            warnings.append(
                f"{topic} exists with other settings than its store declares: {listed}. Existing topics are not "
                "altered; alter it with kafka-configs.sh"
            )
    return warnings


def _with_topics(topology: TopologyShape) -> list[Store]:
    """Return the stores that have a changelog topic of their own."""
    stores = [store for sub in topology.subtopologies for store in sub.stores]
    return [store for store in stores if store.logged and not store.source]


def _texts(store: Store) -> dict[str, str]:
    return {name: _text(value) for name, value in store.changelog_config.items()}


def _text(value: object) -> str:
    """Return a value as a broker takes it; empty for a value of a wrong type."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).strip() if isinstance(value, str | int | float) else ""


def _fits(kind: str, text: str) -> bool:
    if kind == _TRUTH:
        return text.lower() in ("true", "false")
    if kind == _TEXT:
        return text != ""
    try:
        return 0 <= float(text) <= 1 if kind == _FRACTION else int(text) is not None
    except ValueError:
        return False


def _hint(name: str) -> str:
    close = get_close_matches(name.replace("_", ".").lower(), TOPIC_SETTINGS, 1)
    return f"did you mean {close[0]}?" if close else f"settings of topics are {', '.join(TOPIC_SETTINGS)}"
