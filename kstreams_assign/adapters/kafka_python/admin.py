"""The admin client of kafka-python, and what it is asked for about members.

All of it is public, except for one corrected constructor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, MemberToRemove

from kstreams_assign.adapters.kafka_python.connections import closed_unless_made
from kstreams_assign.adapters.kafka_python.faults import fault, translated
from kstreams_assign.adapters.kafka_python.settings import kafka_python_settings

_NOT_THERE = (kafka_errors.UnknownMemberIdError, kafka_errors.FencedInstanceIdError)


class Admin(KafkaAdminClient):  # type: ignore[misc]
    """kafka-python's admin client, without the thread and the sockets that it leaves behind when it cannot be made."""

    def __init__(self, **settings: Any) -> None:
        with closed_unless_made(self):
            super().__init__(**settings)


A = TypeVar("A", bound=Admin)


@contextmanager
def connected(kind: type[A], bootstrap_servers: str, client: Mapping[str, str], timeout_s: float) -> Iterator[A]:
    """Yield a client for the block. Raises ``BrokerUnavailable`` if no broker answers in time.

    Over TLS that may take ``connections.HANDSHAKE_S`` longer.
    """
    timeout_ms = round(timeout_s * 1000)
    with translated("connect to the brokers"):
        admin = kind(
            bootstrap_servers=bootstrap_servers.split(","),
            bootstrap_timeout_ms=timeout_ms,
            request_timeout_ms=timeout_ms,
            **kafka_python_settings(client),
        )
    try:
        yield admin
    finally:
        admin.close()


def group_settings(admin: Admin, group: str) -> dict[str, str]:
    """Return the settings that the brokers have for a group, by Kafka's names. Raises as ``remove_members``."""
    with translated(f"settings of group {group}"):
        answer = admin.describe_configs([ConfigResource(ConfigResourceType.GROUP, group)], config_filter="all")
    settings: Mapping[str, Mapping[str, Any]] = answer.get(ConfigResourceType.GROUP.name.lower(), {}).get(group, {})
    return {name: str(setting["value"]) for name, setting in settings.items()}


def remove_members(
    bootstrap_servers: str,
    client: Mapping[str, str],
    group: str,
    members: Iterable[tuple[str | None, str | None]],
    reason: str,
    timeout_s: float,
) -> list[str]:
    """Take members, by (member id, instance id), out of a group (LeaveGroup); the answer names those that were in it.

    Raises ``BrokerUnavailable``, ``BrokerError``.
    """
    asked = [MemberToRemove(member_id, instance_id, reason) for member_id, instance_id in members]
    doing = f"take members out of group {group}"
    with connected(Admin, bootstrap_servers, client, timeout_s) as admin, translated(doing):
        answers: Mapping[str, type[kafka_errors.KafkaError]] = admin.remove_group_members(group, asked)
    for error in answers.values():
        if error is not kafka_errors.NoError and error not in _NOT_THERE:
            raise fault(error(), doing)
    return [name for name, error in answers.items() if error is kafka_errors.NoError]
