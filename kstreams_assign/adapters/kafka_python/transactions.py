"""Open transactions of partitions, what their coordinators say of them, and markers for those that hang (KIP-664).

kafka-python's admin client asks all of it, publicly; it only ever aborts, so one method that is not public is replaced
(``_abort_transaction_request``, 3.0.12). What must not live here: whether a transaction hangs
(``observe.transactions``).
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
from kstreams_assign.observe.transactions import Coordinated, Decision, ExaminedTransaction, OpenTransaction, still_open


class TransactionsOnBrokers:
    """Asks about transactions and ends them. For one thread."""

    def __init__(self, admin: _MarkingAdmin) -> None:
        self._admin = admin

    def look(self, partitions: Iterable[TopicPartition]) -> list[ExaminedTransaction]:
        """Return the open transactions of existing partitions, with their coordinators' state. Raises ``BrokerError``.

        DescribeProducers asks for the right to read the topic, DescribeTransactions to describe the transactional id.
        """
        wanted = sorted(partitions)
        before = self._open(wanted)
        if not before:
            return []
        coordinated = self._coordinated({transaction.producer_id for transaction in before})
        there = still_open(before, self._open(sorted({transaction.partition for transaction in before})))
        return [ExaminedTransaction(transaction, coordinated.get(transaction.producer_id)) for transaction in there]

    def committed(self, group: str) -> set[TopicPartition]:
        """The partitions that a group has committed offsets of. Raises ``BrokerError``."""
        with translated(f"committed offsets of {group}"):
            offsets = self._admin.list_group_offsets({group: None})[group]
        return {TopicPartition(*at) for at in offsets}

    def end(self, hanging: OpenTransaction, decision: Decision) -> None:
        """Write the marker that the coordinator did not write.

        Needs the right to alter the cluster. Raises ``BrokerError``.
        """
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
            producers = self._admin.describe_producers([KafkaTopicPartition(*at) for at in partitions])
        return [
            OpenTransaction(
                TopicPartition(*at),
                producer.producer_id,
                producer.producer_epoch,
                producer.coordinator_epoch,
                producer.current_transaction_start_offset,
            )
            for at, state in sorted(producers.items())
            for producer in state.active_producers
            if producer.current_transaction_start_offset >= 0
        ]

    def _coordinated(self, producer_ids: Iterable[int]) -> Mapping[int, Coordinated]:
        with translated("list transactions"):
            listed = self._admin.list_transactions(producer_id_filters=sorted(producer_ids))
        names = sorted({transaction.transactional_id for of_broker in listed.values() for transaction in of_broker})
        described = {name: self._described(name) for name in names}
        return {
            transaction.producer_id: _coordinated(name, transaction)
            for name, transaction in described.items()
            if transaction is not None
        }

    def _described(self, transactional_id: str) -> Any:
        """None if the coordinator has just forgotten it."""
        with translated(f"describe transactional id {transactional_id}"), suppress(TransactionalIdNotFoundError):
            return self._admin.describe_transactions([transactional_id])[transactional_id]


@contextmanager
def transactions_on_brokers(
    bootstrap_servers: str, client: Mapping[str, str] | None = None, timeout_s: float = 10.0
) -> Iterator[TransactionsOnBrokers]:
    """Yield the questions for the block. Raises ``BrokerUnavailable`` if no broker answers in time."""
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


def _coordinated(name: str, described: Any) -> Coordinated:
    return Coordinated(
        transactional_id=name,
        state=described.state.value,
        producer_id=described.producer_id,
        producer_epoch=described.producer_epoch,
        timeout_ms=described.transaction_timeout_ms,
        partitions=frozenset(TopicPartition(*at) for at in described.topic_partitions),
    )
