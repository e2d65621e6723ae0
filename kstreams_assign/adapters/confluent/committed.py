"""A group's committed offsets, asked for beside the member.

On the member's own connection the broker answers in order, and the answer to JoinGroup may take as long as a session.
What lives here: one consumer that never joins. What must not: who commits. An AdminClient of librdkafka 2.16 could ask,
too, but after its broker's restart it is never answered, or aborts the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from kstreams_assign.adapters.confluent.faults import fault, translating
from kstreams_assign.adapters.confluent.settings import Setting, made, merged
from kstreams_assign.client_settings import ClientRole
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.model import TopicPartition

_RETRY_S = 0.02


class CommittedOffsets:
    """Asks for the offsets of one group, one question at a time; threads may share it.

    ``stable`` waits for transactions that are about to commit some (KIP-447).
    """

    def __init__(
        self, bootstrap_servers: str, client: Mapping[str, str] | None, *, group_id: str, stable: bool = False
    ) -> None:
        needed: dict[str, Setting] = {
            "group.id": group_id,
            "enable.auto.commit": False,
            "isolation.level": "read_committed" if stable else "read_uncommitted",  # decides whether it waits
        }
        self._about = f"committed offsets of {group_id}"
        self._client = client
        self._settings = merged(ClientRole.CONSUMER, bootstrap_servers, client, {}, needed)
        self._consumer: Consumer | None = None
        self._asking = threading.RLock()

    def connect(self) -> None:
        """Look for the group's coordinator now, in the background, so that the first question need not wait for it."""
        with self._asking, translating(self._about):
            self._connected()

    def read(self, partitions: Iterable[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        """Next offsets; partitions without one are absent. Raises ``BrokerUnavailable``, ``BrokerError``.

        ``timeout_s`` includes the wait for the questions of other threads.
        """
        wanted = [ClientPartition(*partition) for partition in partitions]
        if not wanted:
            return {}
        deadline = time.monotonic() + timeout_s
        if not self._asking.acquire(timeout=max(0.0, timeout_s)):
            raise BrokerUnavailable(f"{self._about}: another question took all of the {timeout_s:.1f} s")
        try:
            return self._read_until(deadline, wanted)
        finally:
            self._asking.release()

    def _read_until(self, deadline: float, wanted: list[ClientPartition]) -> dict[TopicPartition, int]:
        while True:
            try:
                return self._read(wanted, max(0.0, deadline - time.monotonic()))
            except BrokerUnavailable:  # also at once, where the coordinator has just moved
                if time.monotonic() + _RETRY_S >= deadline:
                    self.close()  # whatever ails it, the next question is another client's
                    raise
            threading.Event().wait(_RETRY_S)

    def _read(self, wanted: list[ClientPartition], timeout_s: float) -> dict[TopicPartition, int]:
        with translating(self._about):
            answers = self._connected().committed(wanted, timeout_s)
        for at in answers:
            if at.error is not None:
                raise fault(at.error, f"{self._about}: {at.topic}-{at.partition}")
        return {TopicPartition(at.topic, at.partition): at.offset for at in answers if at.offset >= 0}

    def _connected(self) -> Consumer:
        if self._consumer is None:
            self._consumer = made(Consumer, self._settings, self._client, self._about)
        return self._consumer

    def close(self) -> None:
        with self._asking:
            consumer, self._consumer = self._consumer, None
            if consumer is not None:
                consumer.close()
