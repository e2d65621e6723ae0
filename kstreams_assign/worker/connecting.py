"""Make a member's client from its settings, and leave a streams group."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.kafka_python import (
    GroupClient,
    StreamsCoordinator,
    kafka_python_settings,
    streams_coordinator,
)
from kstreams_assign.config import Config
from kstreams_assign.engine.streams_errors import AGAIN
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.group.dialects import DIALECTS
from kstreams_assign.model import TopologyShape
from kstreams_assign.topology.internal import subscription_pattern
from kstreams_assign.wire import StreamsHeartbeatRequest
from kstreams_assign.worker.membership import Membership

CONNECT_S, CONNECT_RETRY_S = 30.0, 0.5
LEAVE_RETRY_S = 0.05

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StreamsConnections:
    """The connections of a member of a streams group: commits must not wait for heartbeats, nor these for them."""

    heartbeats: StreamsCoordinator
    commits: StreamsCoordinator
    closing: ExitStack

    def leave(self, request: StreamsHeartbeatRequest, timeout_s: float) -> None:
        """Send this last heartbeat until the group's coordinator answers it. Raises ``BrokerError``."""
        _await_brokers(lambda: self._leave_once(request), timeout_s, LEAVE_RETRY_S)

    def _leave_once(self, request: StreamsHeartbeatRequest) -> None:
        code = self.heartbeats.heartbeat(request).error_code
        if code in AGAIN:
            raise BrokerUnavailable(f"leave the group: its coordinator loads or has moved: error code {code}")

    def close(self) -> None:
        """Close both."""
        self.closing.close()


def streams_connections(config: Config, process: UUID, admin: ClusterAdmin) -> StreamsConnections:
    """Connect a member with these settings; raises as ``group_client``. No request takes a third of the session."""
    timeout_s = config.session_timeout_ms / 3000
    client = {"client.id": _client_id(config, process), **config.client}

    def connect() -> StreamsConnections:
        admin.reach(CONNECT_S)  # its error says best why no broker answers
        with ExitStack() as opened:
            heartbeats, commits = (
                opened.enter_context(streams_coordinator(config.bootstrap_servers, client, timeout_s)) for _ in range(2)
            )
            return StreamsConnections(heartbeats, commits, opened.pop_all())

    return _await_brokers(connect)


def group_client(config: Config, shape: TopologyShape, admin: ClusterAdmin, membership: Membership) -> GroupClient:
    """Return the client of a member with these settings; wait for brokers that are away for a moment.

    Raises ``BrokerUnavailable``, and ``ConfigError`` if the brokers refuse the settings.
    """
    return _await_brokers(lambda: _group_client(config, shape, admin, membership))


def _client_id(config: Config, process: UUID) -> str:
    return f"{config.application_id}-{process}"


def _await_brokers(ask: Callable[[], T], timeout_s: float = CONNECT_S, retry_s: float = CONNECT_RETRY_S) -> T:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return ask()
        except BrokerUnavailable:
            if time.monotonic() + retry_s >= deadline:
                raise
        threading.Event().wait(retry_s)


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
            "client_id": _client_id(config, membership.process_id),
            **kafka_python_settings(config.client),
            "group_instance_id": config.group_instance_id,
            "session_timeout_ms": config.session_timeout_ms,
            "heartbeat_interval_ms": config.heartbeat_interval_ms,
            "max_poll_interval_ms": config.max_poll_interval_ms,
            "retry_backoff_ms": 20,
        },
    )
