"""Checks at the brokers before the member joins: topics that the topology cannot work with are refused at start.

What must not live here: what a leader creates or refuses (``leading``), and look-ups that are repeated.
"""

from __future__ import annotations

from collections.abc import Sequence

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.config import Config
from kstreams_assign.errors import BrokerError, ConfigError
from kstreams_assign.events import LookupFailedEvent
from kstreams_assign.model import TopologyShape
from kstreams_assign.topology.flows import Flow
from kstreams_assign.topology.kinds import refuse_foreign_stores
from kstreams_assign.worker.events import EventLog

FIRST_ANSWER_S = 30.0
SETTINGS_S = 5.0


def refuse_missing_sinks(admin: ClusterAdmin, flows: Sequence[Flow], shape: TopologyShape) -> None:
    """Raise ``ConfigError`` for missing sink topics; later each commit would fail."""
    sinks = {sink for flow in flows for sink in flow.sinks.values()} - shape.repartition_topics.keys()
    counts = admin.partition_counts(sinks, FIRST_ANSWER_S)
    if missing := sorted(sinks - counts.keys()):
        raise ConfigError(f"topology: sink topics that do not exist: {', '.join(missing)}; create them first")


def refuse_changelogs_of_other_kinds(config: Config, admin: ClusterAdmin, shape: TopologyShape, log: EventLog) -> None:
    """Raise ``ConfigError`` for Java's windowed and versioned stores, known by their changelogs' settings."""
    try:
        settings = admin.own_settings(shape.changelog_topics(config.application_id), SETTINGS_S)
    except BrokerError as cause:
        log.emit(LookupFailedEvent(what="settings of changelogs", reason=str(cause)))
        settings = {}
    refuse_foreign_stores(shape, config.application_id, settings)
