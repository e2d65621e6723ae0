"""The metadata beside a group's committed offsets, byte for byte.

confluent-kafka 2.16 reads on behind the end of a text that another client committed, so what it shows of one cannot be
used; kafka-python reads what is there. Its public ``list_group_offsets`` cannot ask for stable offsets (KIP-447), so a
method that is not public sets that field (``_list_group_offsets_requests``, 3.0.12). What lives here: one client that
stays. What must not: what the text means (``wire.offset_metadata``), offsets (``confluent.committed``).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import Any

from kafka.structs import TopicPartition as KafkaTopicPartition

from kstreams_assign.adapters.kafka_python.admin import Admin, connected
from kstreams_assign.adapters.kafka_python.faults import translated
from kstreams_assign.errors import BrokerError, BrokerUnavailable
from kstreams_assign.model import TopicPartition

_RETRY_S = 0.1
_ENDS = "\x00"  # confluent-kafka writes a zero byte behind it


def committed_metadata(admin: Admin, group: str, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, str]:
    """Return what was committed last, empty where that was nothing. Raises kafka-python's errors."""
    answers = admin.list_group_offsets({group: [KafkaTopicPartition(*at) for at in partitions]})[group]
    return {TopicPartition(*at): (answer.metadata or "").rstrip(_ENDS) for at, answer in answers.items()}


class CommittedMetadata:
    """Asks for the metadata of one group's commits; connects with the first question, or before. Threads may share it.

    ``stable`` waits for transactions that are about to commit some (KIP-447).
    """

    def __init__(
        self,
        bootstrap_servers: str,
        client: Mapping[str, str],
        *,
        group_id: str,
        timeout_s: float,
        stable: bool = False,
    ) -> None:
        self._servers, self._client = bootstrap_servers, client
        self._group_id = group_id
        self._timeout_s = timeout_s
        self._kind = _StableAdmin if stable else Admin
        self._asking = threading.RLock()
        self._admin: Admin | None = None
        self._closing = ExitStack()

    def connect(self) -> None:
        """Connect early, so that the first question need not wait; if no broker answers, the question tries again."""
        with self._asking, suppress(BrokerUnavailable):
            self._connected()

    def read(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """What was committed last; empty where that was nothing. Raises ``BrokerUnavailable``, ``BrokerError``."""
        wanted = list(partitions)
        if not wanted:
            return {}
        deadline = time.monotonic() + self._timeout_s
        with self._asking:
            while True:
                try:
                    return self._read(wanted)
                except BrokerError as cause:
                    self.close()  # whatever ails it, the next question is another client's
                    if not isinstance(cause, BrokerUnavailable) or time.monotonic() + _RETRY_S >= deadline:
                        raise
                threading.Event().wait(_RETRY_S)

    def _read(self, wanted: list[TopicPartition]) -> dict[TopicPartition, str]:
        admin = self._connected()
        with translated(f"committed metadata of {self._group_id}"):
            return committed_metadata(admin, self._group_id, wanted)

    def _connected(self) -> Admin:
        if self._admin is None:
            client = connected(self._kind, self._servers, self._client, self._timeout_s)
            self._admin = self._closing.enter_context(client)
        return self._admin

    def close(self) -> None:
        with self._asking:
            self._admin = None
            self._closing.close()


class _StableAdmin(Admin):
    def _list_group_offsets_requests(self, group_specs: Mapping[str, Any]) -> Iterator[tuple[str | None, Any]]:
        """Ask for stable offsets; brokers before 2.5 do not know the field, and it is not sent to them."""
        for group_id, request in super()._list_group_offsets_requests(group_specs):
            request.require_stable = True
            yield group_id, request
