"""Records deleted up to an offset, without waiting for it.

What must not live here: which records may go (``worker.purging``).
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from kstreams_assign.adapters.confluent.faults import FAULTS, describe
from kstreams_assign.adapters.confluent.settings import made, merged
from kstreams_assign.client_settings import ClientRole
from kstreams_assign.errors import BrokerError, KStreamsAssignError
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

    def failures(self) -> dict[TopicPartition, KStreamsAssignError]:
        """Partition -> why it failed, of the last request; returned once.

        ``BrokerUnavailable`` where the same request may succeed later. Not where no partition of the request has a
        leader: librdkafka gives this reason too if no topic of the request exists.
        """
        asked, self._asked = self._asked, {}
        failed = {at: future.exception() for at, future in asked.items()}
        return {TopicPartition(at.topic, at.partition): _error(why) for at, why in failed.items() if why is not None}


def _error(why: BaseException) -> KStreamsAssignError:
    if not isinstance(why, KafkaException):
        return BrokerError(str(why))
    error = why.args[0]
    without_leader = error.code() == KafkaError._NOENT  # noqa: SLF001  # librdkafka's own codes begin like this
    kind = BrokerError if without_leader else FAULTS.get(error.code(), BrokerError)
    return kind(describe(error))
