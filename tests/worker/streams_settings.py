"""Settings of a streams group at the brokers, set by a test (Kafka: ``kafka-configs.sh --entity-type groups``)."""

from __future__ import annotations

from typing import Any

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient


def set_group(broker: str, group: str, **settings: Any) -> None:
    """Set ``streams.<name>`` of a group, underscores for dots."""
    names = {f"streams.{name.replace('_', '.')}": str(value) for name, value in settings.items()}
    admin = KafkaAdminClient(bootstrap_servers=broker.split(","))
    try:
        admin.alter_configs([ConfigResource(ConfigResourceType.GROUP, group, configs=names)])
    finally:
        admin.close()
