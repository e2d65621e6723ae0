"""Topics that this client may not write to, asked when a transaction fails.

A broker that refuses one topic of a transaction refuses all of them, and librdkafka drops every record as purged; it
does not say which topic it was. What must not live here: what a missing right means for a commit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient  # type: ignore[attr-defined]

from kstreams_assign.adapters.confluent.settings import made, merged
from kstreams_assign.client_settings import ClientRole
from kstreams_assign.errors import KStreamsAssignError

_ASK_S = 3.0


def forbidden_topics(
    bootstrap_servers: str, client: Mapping[str, str] | None, topics: Collection[str]
) -> Sequence[str]:
    """Return those of existing topics that this client may not write to; none if the brokers do not answer in 3 s."""
    settings = merged(ClientRole.ADMIN, bootstrap_servers, client, {}, {})
    try:
        admin: AdminClient = made(AdminClient, settings, client, f"admin client of {bootstrap_servers}")
        answers = admin.describe_topics(
            TopicCollection(sorted(topics)), include_authorized_operations=True, request_timeout=_ASK_S
        )
        described = {topic: answer.result(_ASK_S) for topic, answer in answers.items()}
    except (KStreamsAssignError, KafkaException, FutureTimeoutError):
        return ()
    rights = {topic: description.authorized_operations for topic, description in described.items()}
    return [topic for topic, allowed in rights.items() if allowed is not None and AclOperation.WRITE not in allowed]
