"""Make a member's client from its settings."""

from __future__ import annotations

import threading
import time

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.kafka_python import GroupClient, kafka_python_settings
from kstreams_assign.config import Config
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.group.dialects import DIALECTS
from kstreams_assign.model import TopologyShape
from kstreams_assign.topology.internal import subscription_pattern
from kstreams_assign.worker.membership import Membership

CONNECT_S, CONNECT_RETRY_S = 30.0, 0.5


def group_client(config: Config, shape: TopologyShape, admin: ClusterAdmin, membership: Membership) -> GroupClient:
    """Return the client of a member with these settings; wait for brokers that are away for a moment.

    Raises ``BrokerUnavailable``, and ``ConfigError`` if the brokers refuse the settings.
    """
    deadline = time.monotonic() + CONNECT_S
    while True:
        try:
            return _group_client(config, shape, admin, membership)
        except BrokerUnavailable:
            if time.monotonic() > deadline:
                raise
        threading.Event().wait(CONNECT_RETRY_S)


def _group_client(config: Config, shape: TopologyShape, admin: ClusterAdmin, membership: Membership) -> GroupClient:
    admin.reach(CONNECT_S)  # its error says best why no broker answers
    return GroupClient(
        group_id=config.application_id,
        bootstrap_servers=config.bootstrap_servers,
        topics=shape.source_topics,
        pattern=subscription_pattern(shape),
        protocol_name=DIALECTS[config.user_data].protocol_name,
        protocolist=membership,
        rack=config.client_rack,
        settings={
            "client_id": f"{config.application_id}-{membership.process_id}",
            **kafka_python_settings(config.client),
            "group_instance_id": config.group_instance_id,
            "session_timeout_ms": config.session_timeout_ms,
            "heartbeat_interval_ms": config.heartbeat_interval_ms,
            "max_poll_interval_ms": config.max_poll_interval_ms,
            "retry_backoff_ms": 20,
            "allow_auto_create_topics": False,  # a broker would create an internal topic with one partition
        },
    )
