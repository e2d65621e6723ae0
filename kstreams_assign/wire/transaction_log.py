"""The records of ``__transaction_state``: the state of each transaction, as its coordinator wrote it.

Key and value only. Layouts are in ``protocol/``; the topic is read elsewhere, and nothing here acts on a state.
"""

from __future__ import annotations

from dataclasses import dataclass

from kstreams_assign.model import TopicPartition
from kstreams_assign.wire.compile import holds, layout, valid_versions
from kstreams_assign.wire.primitives import INT8, INT16, INT32, INT64, Source

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""Kafka's ``TransactionState``, by ordinal."""
AT_WORK = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})

_KEY, _VALUE = "TransactionLogKey", "TransactionLogValue"


@dataclass(frozen=True, slots=True)
class LoggedTransaction:
    """One step of a transaction. ``partitions`` are those it wrote to, empty before it began and after it ended."""

    state: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


def encode_transaction_key(transactional_id: str) -> bytes:
    """Encode the key of a transactional id. Raises ``ConfigError``."""
    return layout(_KEY, 0).write({"type": 0, "transactional_id": transactional_id})


def decode_transaction(data: bytes) -> LoggedTransaction:
    """Decode a value, versions 0 and 1. Raises ``MalformedUserData``."""
    source = Source(data, _VALUE)
    version = source.number(INT16, "version")
    if not holds(valid_versions(_VALUE), version):
        raise source.malformed("version", f"{version} is not one of {valid_versions(_VALUE)}")
    producer_id, epoch = source.number(INT64, "producer_id"), source.number(INT16, "producer_epoch")
    source.number(INT32, "transaction_timeout")
    ordinal = source.number(INT8, "state")
    if ordinal not in range(len(STATES)):
        raise source.malformed("state", f"{ordinal} is not a known state of a transaction")
    state = STATES[ordinal]
    if state not in AT_WORK:  # its partitions may be null
        return LoggedTransaction(state, producer_id, epoch, frozenset())
    columns = layout(_VALUE, version).read(data)[0]["partitions"]
    rows = zip(columns["topic"], columns["partitions"], strict=True)
    wrote = frozenset(TopicPartition(topic, number) for topic, numbers in rows for number in numbers)
    return LoggedTransaction(state, producer_id, epoch, wrote)
