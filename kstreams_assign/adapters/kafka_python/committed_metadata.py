"""The metadata beside a group's committed offsets, byte for byte.

confluent-kafka 2.16 reads on behind the end of a text that another client committed, so what it shows of one cannot be used; kafka-python
reads what is there. What lives here: one client that stays. What must not: what the text means (``wire.offset_metadata``), offsets
(``confluent.committed``, which can wait for transactions).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress

from kafka.structs import TopicPartition as KafkaTopicPartition

from kstreams_assign.adapters.kafka_python.admin import Admin, connected
from kstreams_assign.adapters.kafka_python.faults import translated
from kstreams_assign.errors import BrokerError, BrokerUnavailable
from kstreams_assign.model import TopicPartition

_AGAIN_S = 0.1
_ENDS = "\x00"  # confluent-kafka writes a zero byte behind it


class CommittedMetadata:
    """Asks for the metadata of one group's commits; connects with the first question, or before. Threads may share it."""

    def __init__(self, bootstrap_servers: str, client: Mapping[str, str], *, group_id: str, timeout_s: float) -> None:
        self._servers, self._client = bootstrap_servers, client
        self._group_id = group_id
        self._timeout_s = timeout_s
        self._asking = threading.RLock()
        self._admin: Admin | None = None
        self._closing = ExitStack()

    def connect(self) -> None:
        """So that the first question need not wait for it; where nobody answers the question tries again."""
        with self._asking, suppress(BrokerUnavailable):
            self._connected()

    def read(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """What was committed last; empty where that was nothing. Raises ``BrokerUnavailable``, ``BrokerError``."""
        wanted = [KafkaTopicPartition(*partition) for partition in partitions]
        if not wanted:
            return {}
        deadline = time.monotonic() + self._timeout_s
        with self._asking:
            while True:
                try:
                    return self._read(wanted)
                except BrokerError as cause:
                    self.close()  # whatever ails it, the next question is another client's
                    if not isinstance(cause, BrokerUnavailable) or time.monotonic() + _AGAIN_S >= deadline:
                        raise
                threading.Event().wait(_AGAIN_S)

    def _read(self, wanted: list[KafkaTopicPartition]) -> dict[TopicPartition, str]:
        admin = self._connected()
        with translated(f"committed metadata of {self._group_id}"):
            told = admin.list_group_offsets({self._group_id: wanted})[self._group_id]
        return {TopicPartition(*at): (found.metadata or "").rstrip(_ENDS) for at, found in told.items()}

    def _connected(self) -> Admin:
        if self._admin is None:
            client = connected(Admin, self._servers, self._client, self._timeout_s)
            self._admin = self._closing.enter_context(client)
        return self._admin

    def close(self) -> None:
        with self._asking:
            self._admin = None
            self._closing.close()
