"""Open transactions of partitions, what their coordinators say of them, and markers for those that hang (KIP-664).

kafka-python's admin client asks all of it, publicly; it only ever aborts, so one method that is not public is replaced
(``_abort_transaction_request``, 3.0.12). What must not live here: whether a transaction hangs (``tasks.transactions``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from kafka.admin import AbortTransactionSpec
from kafka.errors import TransactionalIdNotFoundError
from kafka.structs import TopicPartition as KafkaTopicPartition

from kstreams_assign.adapters.kafka_python.admin import Admin, connected
from kstreams_assign.adapters.kafka_python.faults import translated
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.transactions import Coordinated, Decision, Found, OpenTransaction, still_open


class TransactionsOnBrokers:
    """Asks about transactions and ends them. For one thread."""

    def __init__(self, admin: _MarkingAdmin) -> None:
        self._admin = admin

    def look(self, partitions: Iterable[TopicPartition]) -> list[Found]:
        """What these partitions, which exist, hold open, each with what its coordinator says. Raises ``BrokerError``.

        DescribeProducers asks for the right to read the topic, DescribeTransactions to describe the transactional id.
        """
        wanted = sorted(partitions)
        before = self._open(wanted)
        if not before:
            return []
        coordinated = self._coordinated({one.producer_id for one in before})
        there = still_open(before, self._open(sorted({one.partition for one in before})))
        return [Found(one, coordinated.get(one.producer_id)) for one in there]

    def committed(self, group: str) -> set[TopicPartition]:
        """The partitions that a group has committed offsets of. Raises ``BrokerError``."""
        with translated(f"committed offsets of {group}"):
            told = self._admin.list_group_offsets({group: None})[group]
        return {TopicPartition(*at) for at in told}

    def end(self, hanging: OpenTransaction, decision: Decision) -> None:
        """Write the marker that its coordinator did not. Needs the right to alter the cluster. Raises ``BrokerError``."""
        self._admin.commits = decision is Decision.COMMIT
        spec = AbortTransactionSpec(
            KafkaTopicPartition(*hanging.partition),
            hanging.producer_id,
            hanging.producer_epoch,
            max(0, hanging.coordinator_epoch),  # -1: no marker of this producer has come yet
        )
        with translated(f"{decision.value} the transaction in {hanging.partition}"):
            self._admin.abort_transaction(spec)

    def _open(self, partitions: list[TopicPartition]) -> list[OpenTransaction]:
        with translated("describe producers"):
            told = self._admin.describe_producers([KafkaTopicPartition(*at) for at in partitions])
        return [
            OpenTransaction(
                TopicPartition(*at),
                one.producer_id,
                one.producer_epoch,
                one.coordinator_epoch,
                one.current_transaction_start_offset,
            )
            for at, state in sorted(told.items())
            for one in state.active_producers
            if one.current_transaction_start_offset >= 0
        ]

    def _coordinated(self, producer_ids: Iterable[int]) -> Mapping[int, Coordinated]:
        with translated("list transactions"):
            listed = self._admin.list_transactions(producer_id_filters=sorted(producer_ids))
        names = sorted({one.transactional_id for of_broker in listed.values() for one in of_broker})
        told = {name: self._described(name) for name in names}
        return {one.producer_id: _coordinated(name, one) for name, one in told.items() if one is not None}

    def _described(self, transactional_id: str) -> Any:
        """None where it has just been forgotten."""
        with translated(f"describe transactional id {transactional_id}"), suppress(TransactionalIdNotFoundError):
            return self._admin.describe_transactions([transactional_id])[transactional_id]


@contextmanager
def transactions_on_brokers(
    bootstrap_servers: str, client: Mapping[str, str] | None = None, timeout_s: float = 10.0
) -> Iterator[TransactionsOnBrokers]:
    """For as long as the block. Raises ``BrokerUnavailable`` where nobody answers in time."""
    with connected(_MarkingAdmin, bootstrap_servers, client or {}, timeout_s) as admin:
        yield TransactionsOnBrokers(admin)


class _MarkingAdmin(Admin):
    """Its ``abort_transaction`` commits where ``commits`` says so: the same request, with the other result."""

    commits = False

    def _abort_transaction_request(self, spec: AbortTransactionSpec) -> Any:
        request = Admin._abort_transaction_request(spec)  # noqa: SLF001  # its own base
        for marker in request.markers:
            marker.transaction_result = self.commits
        return request


def _coordinated(name: str, told: Any) -> Coordinated:
    return Coordinated(
        transactional_id=name,
        state=told.state.value,
        producer_id=told.producer_id,
        producer_epoch=told.producer_epoch,
        timeout_ms=told.transaction_timeout_ms,
        partitions=frozenset(TopicPartition(*at) for at in told.topic_partitions),
    )
