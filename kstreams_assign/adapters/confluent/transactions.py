"""Changelogs, outputs and input offsets in one transaction (KIP-447).

What lives here: the transactional producer, and the bytes that tell it under which membership offsets are sent. What
must not: the order of a commit, what a failure means for the tasks. The idea: kafka-python holds the membership, so the
group's metadata is not taken from a consumer of librdkafka but written here, in librdkafka's own private format; that
it still is that format is checked against what a consumer of this librdkafka writes.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka import libversion as librdkafka_version

from kstreams_assign.adapters.confluent.faults import FAULTS, describe, fault
from kstreams_assign.adapters.confluent.producer import RecordProducer
from kstreams_assign.adapters.confluent.rights import forbidden_topics
from kstreams_assign.client_settings import transaction_delivery_limit_ms, transaction_timeout_ms
from kstreams_assign.errors import (
    BrokerError,
    BrokerUnavailable,
    CommitRefused,
    ConfigError,
    DeliveryFailed,
    KStreamsAssignError,
    RecordRefused,
    TaskMigrated,
    TransactionAborted,
)
from kstreams_assign.group.values import MemberId
from kstreams_assign.model import TopicPartition

_METADATA = struct.Struct("<7si")
_PROBES = (MemberId(-1, "", None), MemberId(-1, "", "an instance"))
_RETRY_S = 0.02
_TIME_TO_SPARE_S = 0.5
"""A call is repeated if there is so much time left. ``commit_transaction`` of librdkafka 2.16 takes a step that has to
end within its time, else it forgets the commit, takes the coordinator's answer to it for that to an abort, and ends
the process by the assertion "Invalid transaction state transition"."""
_NO_METADATA: Mapping[TopicPartition, str] = MappingProxyType({})

_STALE = frozenset({KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_INSTANCE_ID})
"""The group took no offsets from this member: its generation is over."""

_FORBIDDEN: Mapping[int, str] = {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "allow this client to write under that transactional id",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "allow this client idempotent writes",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "allow this client to read in the group",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "the broker's transaction.max.timeout.ms is below this producer's "
    "transaction.timeout.ms: raise the one, or set a smaller other under client",
}
"""What no other attempt mends -> what to do."""


class _LeftBehind(Exception):
    """The client that was called is no longer the one in use, so what it says counts for nothing."""


class TransactionalProducer(RecordProducer):
    """A ``RecordProducer`` whose records become readable only when their transaction is committed.

    ``transactional_id`` fences: of two producers with the same one only the newer may go on, and what the older had
    begun is taken back. ``prepare``, ``begin``, ``send_offsets``, ``commit`` and ``abort`` wait for the broker, each
    for ``timeout_s`` at most; they may be called by another thread than the records are produced by, one call at a
    time. ``transaction_timeout_ms`` is how long the broker waits for this producer while it is silent in a transaction;
    the successor of its tasks waits as long. Raises ``ConfigError`` if this librdkafka writes group metadata in a form
    that is not known here.

    The brokers forget a producer id after ``transactional.id.expiration.ms`` without a transaction. librdkafka 2.16
    keeps such an id if the transaction has only offsets, and could never commit again: it is replaced.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        client: Mapping[str, str] | None = None,
        *,
        group_id: str,
        transactional_id: str,
        delivery_timeout_ms: int | None = None,
    ) -> None:
        refuse_unknown_metadata(librdkafka_writes)
        self.transaction_timeout_ms = transaction_timeout_ms(client or {})
        longest_ms = transaction_delivery_limit_ms(self.transaction_timeout_ms)
        super().__init__(
            bootstrap_servers,
            client,
            delivery_timeout_ms=longest_ms if delivery_timeout_ms is None else min(delivery_timeout_ms, longest_ms),
            needed={"transactional.id": transactional_id, "transaction.timeout.ms": self.transaction_timeout_ms},
        )
        self._group_id = group_id
        self._about = f"transactional id {transactional_id}"
        self._prepared = self._begun = False

    @property
    def settled(self) -> bool:
        """Whether nothing of this process may be open at the broker but what was begun; else ``prepare``."""
        return self._prepared and not self._spoiled

    def _outcome(self) -> Mapping[TopicPartition, int]:
        """A transaction fails as a whole where a topic may not be written to; the client does not say which topic."""
        purged = self._flight.purged()
        try:
            return super()._outcome()
        except RecordRefused:
            raise
        except DeliveryFailed as cause:
            servers = str(self._settings["bootstrap.servers"])
            for topic in forbidden_topics(servers, self._client, purged) if purged else ():
                error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
                raise purged[topic]._replace(error=error).fault(f"the transaction failed because of {topic}") from cause
            raise

    def prepare(self, timeout_s: float) -> None:
        """Get ready: fence a predecessor and take back what it had begun. Nothing to do where that was done.

        Raises ``BrokerUnavailable`` where it takes longer: prepare again.
        """
        if self._spoiled:
            self._prepared = self._begun = False
            self._renew()
        if not self._prepared:
            self._call("init transactions", timeout_s, lambda client, left_s: client.init_transactions(left_s))
            self._prepared = True

    def begin(self, timeout_s: float) -> None:
        """Begin a transaction, prepared or not. Raises as ``prepare``."""
        self.prepare(timeout_s)
        self._call("begin a transaction", timeout_s, lambda client, _: client.begin_transaction())
        self._begun = True

    def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int],
        member: MemberId,
        timeout_s: float,
        metadata: Mapping[TopicPartition, str] = _NO_METADATA,
    ) -> None:
        """Add next input offsets to the transaction, under this membership, each with its ``metadata`` if it has some.

        confluent-kafka 2.16 ends that text with a zero byte, which it does not show to its own readers, and Java does.
        Raises ``CommitRefused`` where the group has gone on without it, ``TaskMigrated`` where another producer took
        over, ``TransactionAborted`` and ``BrokerUnavailable`` where it cannot be done; then ``abort``.
        """
        wanted = [ClientPartition(*p, offset, metadata.get(p, "")) for p, offset in offsets.items()]
        membership = group_metadata(self._group_id, member)

        # The client takes an opaque object that a consumer has made; in Python it is bytes.
        def send(client: Any, left_s: float) -> None:
            client.send_offsets_to_transaction(wanted, membership, left_s)

        self._call("send offsets", timeout_s, send)

    def commit(self, timeout_s: float) -> None:
        """Make the transaction true.

        Raises as ``send_offsets``; whether it became true is then not known: ``abort``.
        """
        try:
            self._call("commit the transaction", timeout_s, lambda client, left_s: client.commit_transaction(left_s))
        except BrokerUnavailable:
            self._spoiled = True  # the client goes on with the commit, and could abort only after it
            raise
        self._begun = False

    def abort(self, timeout_s: float) -> None:
        """Take back what was begun, if anything was.

        Where the broker does not answer it stays open until ``prepare``.
        """
        if self._begun and not self._spoiled:
            try:
                self._call("abort the transaction", timeout_s, lambda client, left_s: client.abort_transaction(left_s))
            except (BrokerError, TaskMigrated):
                self._spoiled = True
        self._begun = False
        self._forget()

    def leave(self) -> None:
        """Go on with another client although a call of this one has not returned; ``prepare`` fences the old one."""
        self._prepared = self._begun = False
        self._renew()
        self._forget()

    def abandon(self) -> None:
        """Nothing: ``abort`` drops what is queued with the transaction, and it stays unreadable until then."""

    def close(self) -> None:
        """End the client. What it had begun and not committed is taken back, if the broker answers."""
        self.abort(_CLOSE_S)
        self._purge()
        if self._prepared and not self._spoiled:  # it would wait for a transaction's end that never comes
            self._producer.close()

    def _call(self, what: str, timeout_s: float, call: Callable[[Producer, float], Any]) -> None:
        """Try for as long as the client says that trying again is right.

        Raises ``_LeftBehind`` where another client took over meanwhile.
        """
        client, deadline, retried = self._producer, time.monotonic() + timeout_s, False
        while True:
            try:
                if retried:
                    client.poll(_RETRY_S)  # a fatal error may come out of it as well as out of the call
                call(client, max(deadline - time.monotonic(), _TIME_TO_SPARE_S if retried else 0.0))
            except KafkaException as raised:
                self._still(client)
                error = raised.args[0]
                if not error.retriable() or deadline - time.monotonic() < _TIME_TO_SPARE_S:
                    raise self._verdict(error, f"{what} ({self._about})") from raised
            else:
                self._still(client)
                return
            retried = True

    def _still(self, client: Producer) -> None:
        if self._producer is not client:
            raise _LeftBehind

    def _verdict(self, error: KafkaError, about: str) -> KStreamsAssignError:
        code = error.code()
        self._spoiled |= error.fatal() or code == KafkaError.INVALID_PRODUCER_ID_MAPPING
        if code in _FORBIDDEN:
            return BrokerError(f"{about}: {describe(error)}: {_FORBIDDEN[code]}")
        if code in _STALE:
            return CommitRefused(f"{about}: {describe(error)}")
        if FAULTS.get(code) is TaskMigrated:
            return TaskMigrated(f"{about}: {describe(error)}")
        if error.fatal() or error.txn_requires_abort():
            return TransactionAborted(f"{about}: {describe(error)}")
        return fault(error, about, BrokerUnavailable if error.retriable() else TransactionAborted)


_CLOSE_S = 2.0


def group_metadata(group_id: str, member: MemberId) -> bytes:
    """librdkafka's ``rd_kafka_consumer_group_metadata_write``: what a consumer with this membership would hand over."""
    instance = b"\x01" if member.instance_id is None else b"\x00" + member.instance_id.encode() + b"\x00"
    names = group_id.encode() + b"\x00" + member.member_id.encode() + b"\x00"
    return _METADATA.pack(b"CGMDv2:", member.generation) + names + instance


def librdkafka_writes(group_id: str, instance_id: str | None) -> bytes:
    """Return the group metadata of a consumer of the installed librdkafka that never joined; opens no connection."""
    static = {} if instance_id is None else {"group.instance.id": instance_id}
    consumer = Consumer({"group.id": group_id, **static})
    try:
        return bytes(consumer.consumer_group_metadata())
    finally:
        consumer.close()


def refuse_unknown_metadata(written: Callable[[str, str | None], bytes]) -> None:
    """Raises ``ConfigError`` where ``written`` (a group, an instance) gives other bytes than ``group_metadata``."""
    for probe in _PROBES:
        theirs, ours = written("a group", probe.instance_id), group_metadata("a group", probe)
        if theirs != ours:
            raise ConfigError(
                f"processing_guarantee = 'exactly_once_v2': librdkafka {librdkafka_version()[0]} writes a consumer's "
                f"group metadata as {theirs!r}, and this version knows only {ours!r}; use at_least_once, or the locked "
                "confluent-kafka"
            )
