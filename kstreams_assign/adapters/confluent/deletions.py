"""Records deleted up to an offset, without waiting for it.

What must not live here: which records may go (``worker.purging``).
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from kstreams_assign.adapters.confluent.faults import describe
from kstreams_assign.adapters.confluent.settings import made, merged
from kstreams_assign.client_settings import ClientRole
from kstreams_assign.model import TopicPartition


class RecordDeletions:
    """One request at a time. Used by one thread; holds nothing that has to be closed."""

    def __init__(self, bootstrap_servers: str, client: Mapping[str, str] | None = None) -> None:
        settings = merged(ClientRole.ADMIN, bootstrap_servers, client, {}, {})
        self._admin = made(AdminClient, settings, client, f"admin client of {bootstrap_servers}")
        self._asked: Mapping[ClientPartition, Future[Any]] = {}

    def delete_before(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Ask for it, and return at once. Not while ``busy``."""
        self._asked = self._admin.delete_records([ClientPartition(*p, offset) for p, offset in offsets.items()])

    @property
    def busy(self) -> bool:
        """Whether the last request is not answered yet; librdkafka answers each by its timeout at the latest."""
        return not all(future.done() for future in self._asked.values())

    def failures(self) -> dict[TopicPartition, str]:
        """Partition -> why it failed, of the last request; returned once."""
        asked, self._asked = self._asked, {}
        failed = {at: future.exception() for at, future in asked.items()}
        return {TopicPartition(at.topic, at.partition): _text(why) for at, why in failed.items() if why is not None}


def _text(why: BaseException) -> str:
    return describe(why.args[0]) if isinstance(why, KafkaException) else str(why)
