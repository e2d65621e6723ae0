"""A member that may no longer read its group ends with an error that names the right."""

from __future__ import annotations

import logging
import threading
from functools import partial
from types import SimpleNamespace
from uuid import uuid4

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka.errors import GroupAuthorizationFailedError

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.kafka_python import GroupClient, kafka_python_settings
from kstreams_assign.errors import BrokerError
from kstreams_assign.local import LocalBroker
from tests.adapters.confluent_cluster import PATIENCE_S, new_topic
from tests.adapters.test_kafka_python_join_results import Protocol, until
from tests.conftest import SHARED

USER, OPERATOR = "orders-app", "operator"
USERS = {USER: "a word", OPERATOR: "another word"}
RIGHTS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:ANONYMOUS;User:{OPERATOR}",
}
REFUSED = r"^group g-\w+: GROUP_AUTHORIZATION_FAILED: allow this member to read the group$"


class Wakened(Protocol):
    def __init__(self) -> None:
        super().__init__()
        self.woken = threading.Event()

    def turn_soon(self) -> None:
        self.woken.set()


def made(broker: str, protocol: Protocol, client: dict[str, str]) -> GroupClient:
    return GroupClient(
        group_id=f"g-{uuid4().hex}",
        bootstrap_servers=broker,
        topics=[new_topic(ClusterAdmin(broker, as_user(OPERATOR) if client else {}), 1)],
        protocol_name="stream",
        protocolist=protocol,
        settings={
            **kafka_python_settings(client),
            "session_timeout_ms": 30_000,
            "heartbeat_interval_ms": 200,
            "max_poll_interval_ms": 60_000,
            "retry_backoff_ms": 20,
        },
    )


def as_user(user: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": USERS[user],
    }


def beat_until_refused(client: GroupClient, protocol: Wakened) -> None:
    """Beat each time that the client wakes its member."""
    while True:
        assert protocol.woken.wait(PATIENCE_S), "the member was not woken"
        protocol.woken.clear()
        client.beat(alive=True)


def test_a_member_whose_right_is_taken_away_ends(broker: str) -> None:  # noqa: ARG001  # the part
    protocol = Wakened()
    with LocalBroker(users=USERS, settings={**SHARED, **RIGHTS}) as guarded:
        servers = guarded.bootstrap_servers
        rules = AdminClient({"bootstrap.servers": servers, **as_user(OPERATOR)}, logger=logging.getLogger("rules"))
        allowed = [
            AclBinding(
                kind, "*", ResourcePatternType.LITERAL, f"User:{USER}", "*", AclOperation.READ, AclPermissionType.ALLOW
            )
            for kind in (ResourceType.TOPIC, ResourceType.GROUP)
        ]
        for answer in rules.create_acls(allowed).values():
            answer.result(PATIENCE_S)
        client = made(servers, protocol, as_user(USER))
        until(lambda: client.join(1))
        group = allowed[1]
        taken = AclBindingFilter(
            group.restype,
            group.name,
            group.resource_pattern_type,
            group.principal,
            group.host,
            group.operation,
            group.permission_type,
        )
        for answer in rules.delete_acls([taken]).values():
            answer.result(PATIENCE_S)
        with pytest.raises(BrokerError, match=REFUSED):
            beat_until_refused(client, protocol)
        client.close(PATIENCE_S, leave=True)


@pytest.mark.parametrize("of_heartbeat", [True, False])
def test_a_refused_heartbeat_and_a_refused_look_up_of_the_coordinator_are_kept_for_the_thread(
    broker: str, of_heartbeat: bool
) -> None:
    protocol = Wakened()
    client = made(broker, protocol, {})
    until(lambda: client.join(1))
    coordinator, refusal = client._coordinator, SimpleNamespace(error_code=GroupAuthorizationFailedError.errno)
    protocol.woken.clear()
    heartbeat = partial(coordinator._handle_heartbeat_response, refusal, 0.0)
    look_up = partial(coordinator._handle_find_coordinator_response, SimpleNamespace(coordinators=[refusal]))
    with pytest.raises(GroupAuthorizationFailedError):
        (heartbeat if of_heartbeat else look_up)()
    with pytest.raises(BrokerError, match=REFUSED):
        beat_until_refused(client, protocol)
    client.close(PATIENCE_S, leave=True)
