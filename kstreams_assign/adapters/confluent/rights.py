"""Topics that this client may not write to, asked when a transaction fails.

A broker that refuses one topic of a transaction refuses all of them, and librdkafka drops every record as purged; it
does not say which topic it was. What must not live here: what a missing right means for a commit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient  # type: ignore[attr-defined]

from kstreams_assign.adapters.confluent.settings import made, merged
from kstreams_assign.client_settings import ClientRole
from kstreams_assign.errors import KStreamsAssignError

_ASK_S = 3.0


def forbidden_topics(
    bootstrap_servers: str, client: Mapping[str, str] | None, topics: Collection[str]
) -> Sequence[str]:
    """Return the topics that this client may not write to, as far as the brokers say so within 3 s."""
    settings = merged(ClientRole.ADMIN, bootstrap_servers, client, {}, {})
    try:
        admin: AdminClient = made(AdminClient, settings, client, f"admin client of {bootstrap_servers}")
        answers = admin.describe_topics(
            TopicCollection(sorted(topics)), include_authorized_operations=True, request_timeout=_ASK_S
        )
    except (KStreamsAssignError, KafkaException):
        return ()
    return [topic for topic, answer in answers.items() if _forbids_writes(answer)]


def _forbids_writes(answer: Future[Any]) -> bool:
    """Whether the answer has rights, without that to write; an answer for a topic that does not exist has none."""
    try:
        allowed = answer.result(_ASK_S).authorized_operations
    except (KafkaException, FutureTimeoutError):
        return False
    return allowed is not None and AclOperation.WRITE not in allowed
