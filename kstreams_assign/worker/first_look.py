"""Checks at the brokers before the member joins: topics that the topology cannot work with are refused at start.

What must not live here: what a leader creates or refuses (``leading``), and look-ups that are repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.client_settings import MESSAGE_BYTES_MAX
from kstreams_assign.config import Config
from kstreams_assign.errors import BrokerError, BrokerUnavailable, ConfigError
from kstreams_assign.events import LookupFailedEvent, WarningsEvent
from kstreams_assign.model import TopologyShape
from kstreams_assign.topology.changelog_settings import changelog_settings, declared_settings, differences
from kstreams_assign.topology.flows import Flow
from kstreams_assign.topology.global_tables import POLICY, GlobalTable, policy_warnings
from kstreams_assign.topology.kinds import refuse_foreign_stores
from kstreams_assign.worker.events import EventLog

FIRST_ANSWER_S = 30.0
RECORD_LIMIT = "max.message.bytes"
SETTINGS_S = 5.0
RETRY_MS, RETRY_UNAVAILABLE_MS = 60_000, 5_000
"""For how long a limit is not asked for again that the brokers refused to say, or did not."""


def refuse_missing_sinks(admin: ClusterAdmin, flows: Sequence[Flow], shape: TopologyShape, config: Config) -> None:
    """Raise ``ConfigError`` for missing sink topics and a missing dead-letter topic; later each commit would fail."""
    sinks = {sink for flow in flows for sink in flow.sinks.values()} - shape.repartition_topics.keys()
    dead_letters = config.errors_dead_letter_queue_topic_name
    counts = admin.partition_counts(sinks | ({dead_letters} if dead_letters else set()), FIRST_ANSWER_S)
    if missing := sorted(sinks - counts.keys()):
        raise ConfigError(f"topology: sink topics that do not exist: {', '.join(missing)}; create them first")
    if dead_letters and dead_letters not in counts:
        raise ConfigError(
            f"errors_dead_letter_queue_topic_name = {dead_letters!r}: there is no such topic; create it first"
        )


class TopicLimits:
    """Looks up how many bytes a record of a topic may have. A limit is looked up once, and a failure is remembered."""

    def __init__(
        self, admin: ClusterAdmin, config: Config, log: EventLog, now_ms: Callable[[], int] = monotonic_ms
    ) -> None:
        self._admin = admin
        self._log = log
        self._client_bytes_max = int(config.client.get("message.max.bytes", MESSAGE_BYTES_MAX))
        self._now_ms = now_ms
        self._known: dict[str, int] = {}
        self._retry_at_ms: dict[str, int] = {}
        if config.errors_dead_letter_queue_topic_name is not None:
            self.bytes_max_of(config.errors_dead_letter_queue_topic_name)

    def bytes_max_of(self, topic: str) -> int | None:
        """Return the smaller limit of client and topic; None if the brokers do not answer."""
        if topic not in self._known:
            if self._now_ms() < self._retry_at_ms.get(topic, 0):
                return None
            try:
                limit = self._admin.topic_setting(topic, RECORD_LIMIT, SETTINGS_S)
            except BrokerError as cause:  # also where access to the settings is refused
                self._log.emit(LookupFailedEvent(what=f"{RECORD_LIMIT} of {topic}", reason=str(cause)))
                wait_ms = RETRY_UNAVAILABLE_MS if isinstance(cause, BrokerUnavailable) else RETRY_MS
                self._retry_at_ms[topic] = self._now_ms() + wait_ms
                return None
            self._known[topic] = min(self._client_bytes_max, MESSAGE_BYTES_MAX if limit is None else int(limit))
        return self._known[topic]


def refuse_changelogs_of_other_kinds(config: Config, admin: ClusterAdmin, shape: TopologyShape, log: EventLog) -> None:
    """Raise ``ConfigError`` for Java's windowed and versioned stores, known by their changelogs' settings."""
    try:
        settings = admin.own_settings(shape.changelog_topics(config.application_id), SETTINGS_S)
    except BrokerError as cause:
        log.emit(LookupFailedEvent(what="settings of changelogs", reason=str(cause)))
        settings = {}
    refuse_foreign_stores(shape, config.application_id, settings)
    if warnings := differences(declared_settings(shape, config.application_id), settings):
        log.emit(WarningsEvent(warnings=tuple(warnings)))


def refuse_settings_of_new_changelogs(config: Config, admin: ClusterAdmin, shape: TopologyShape, log: EventLog) -> None:
    """Raise ``ConfigError`` if the brokers would refuse to create a changelog with the settings of its store.

    Otherwise the leader would fail at it in each rebalance, and the tasks would wait for the topic.
    """
    declared = declared_settings(shape, config.application_id)
    if not declared:
        return
    settings = changelog_settings(shape, config.application_id)
    try:
        refused = admin.refused_settings({topic: settings[topic] for topic in declared}, SETTINGS_S)
    except BrokerError as cause:
        log.emit(LookupFailedEvent(what="settings of new changelogs", reason=str(cause)))
        return
    for topic, reason in refused.items():
        raise ConfigError(f"topology: the brokers refuse changelog_config = {declared[topic]} for {topic}: {reason}")


def refuse_missing_global_topics(admin: ClusterAdmin, tables: Sequence[GlobalTable], log: EventLog) -> None:
    """Raise ``ConfigError`` for topics of global tables that do not exist; warn of those that delete records."""
    topics = [table.topic for table in tables]
    counts = admin.partition_counts(topics, FIRST_ANSWER_S)
    if missing := [f"{table.topic} (of {table.name})" for table in tables if table.topic not in counts]:
        raise ConfigError(
            f"global tables: topics that do not exist: {', '.join(missing)}; create them first, with {POLICY}=compact"
        )
    try:
        policies = admin.settings_of(topics, POLICY, SETTINGS_S)
    except BrokerError as cause:
        log.emit(LookupFailedEvent(what="settings of global tables' topics", reason=str(cause)))
        return
    if warnings := policy_warnings(tables, policies):
        log.emit(WarningsEvent(warnings=warnings))
