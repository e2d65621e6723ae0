"""Whether this client may describe a group, asked before a consumer needs the group's coordinator.

librdkafka's consumers look for the coordinator of a group that is hidden from them until their timeout. What must not
live here: what the group is for.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kstreams_assign.adapters.confluent.faults import describe
from kstreams_assign.adapters.confluent.settings import made, merged
from kstreams_assign.client_settings import ClientRole
from kstreams_assign.errors import BrokerError

_ASK_S = 3.0


def refuse_hidden_group(bootstrap_servers: str, client: Mapping[str, str] | None, group: str) -> None:
    """Raise ``BrokerError`` if the brokers say within 3 s that this client may not describe the group."""
    settings = merged(ClientRole.ADMIN, bootstrap_servers, client, {}, {})
    admin: AdminClient = made(AdminClient, settings, client, f"admin client of {bootstrap_servers}")
    try:
        admin.describe_consumer_groups([group], request_timeout=_ASK_S)[group].result()
    except KafkaException as raised:
        error = raised.args[0]
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise BrokerError(
                f"group {group}: {describe(error)}; allow this client to describe the group (DESCRIBE)"
            ) from raised
