"""Transactions that a partition holds open, and whether they will ever end (KIP-664: hanging transactions).

Readers of committed records stop at the first open transaction of a partition. Its coordinator ends it, at its timeout
at the latest, unless the coordinator believes that it has ended: then it hangs, and all readers wait for ever. What
must not live here: requests to brokers (``adapters.kafka_python.transactions``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from kstreams_assign.model import TopicPartition
from kstreams_assign.wire.transaction_log import AT_WORK, LoggedTransaction

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_OF_A_PRODUCER = re.compile(rf"-(?:{_UUID}(?:-\d+)?|(?:\w+__)?\d+_\d+|dead-letters)")
"""What follows the application's id in a transactional id: a process (with Java's thread), a task of Java's first
exactly-once, or the dead letters that are sent again. ``orders-eu-...`` is one of ``orders-eu``, not of ``orders``."""


class Decision(Enum):
    """How a transaction ends."""

    COMMIT = "commit"
    ABORT = "abort"


ENDING: Mapping[str, Decision] = {
    "PrepareCommit": Decision.COMMIT,
    "PrepareAbort": Decision.ABORT,
    "PrepareEpochFence": Decision.ABORT,
}
"""State in which a coordinator writes its markers -> their kind."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """An open transaction of a partition (DescribeProducers): committed reads stop at ``start_offset``."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class Coordinated:
    """What a coordinator knows of a transactional id, in Kafka's words (DescribeTransactions)."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ExaminedTransaction:
    """An open transaction with its coordinator's view; None if no coordinator that may be asked knows the producer."""

    open: OpenTransaction
    coordinated: Coordinated | None

    @property
    def hanging(self) -> bool:
        """Return whether its coordinator will write no marker for it, as it no longer names the partition.

        False if no coordinator knows the producer: its id may have expired, or may not be described.
        """
        known = self.coordinated
        return known is not None and not (known.state in AT_WORK and self.open.partition in known.partitions)

    @property
    def in_vain(self) -> bool:
        """Return whether it probably never ends: it hangs, or no coordinator knows its producer any more."""
        return self.hanging or self.coordinated is None

    def of(self, application_id: str) -> bool:
        """Return whether a producer of this application began it, by its transactional id."""
        if self.coordinated is None or not self.coordinated.transactional_id.startswith(application_id):
            return False
        rest = self.coordinated.transactional_id[len(application_id) :]
        return _OF_A_PRODUCER.fullmatch(rest) is not None


@dataclass(frozen=True, slots=True)
class HeldUp:
    """Why a task waits: a text, and whether its transaction never ends."""

    text: str
    hangs: bool


def still_open(before: Iterable[OpenTransaction], after: Iterable[OpenTransaction]) -> list[OpenTransaction]:
    """Return the transactions of ``after`` that are also in ``before``; others have just ended or begun."""
    known = {(each.partition, each.producer_id, each.start_offset) for each in before}
    return [each for each in after if (each.partition, each.producer_id, each.start_offset) in known]


def decided(hanging: OpenTransaction, log: Iterable[LoggedTransaction]) -> Decision | None:
    """Return how its coordinator ended it, by the coordinator's log in order; None if the log does not have it.

    The last step that names the partition decides: a marker after an earlier end would have closed the transaction. If
    that step is no end, none was decided.
    """
    of_producer = [step for step in log if step.producer_id == hanging.producer_id and step.state in AT_WORK]
    last = next((step for step in reversed(of_producer) if hanging.partition in step.partitions), None)
    if last is None or last.producer_epoch < hanging.producer_epoch:
        return None
    return ENDING.get(last.state)


def in_words(examined: ExaminedTransaction) -> str:
    """Return one clause: the transaction, its owner, and whether it will end."""
    where = f"{examined.open.partition} has an open transaction from offset {examined.open.start_offset} on"
    known = examined.coordinated
    if known is None:
        return f"{where}, of producer {examined.open.producer_id}, which no coordinator that may be asked knows"
    whose = f"{where}, of {known.transactional_id}"
    if examined.hanging:
        past = (
            "has left behind for the producer's next one"
            if known.state in AT_WORK
            else f"believes to have ended ({known.state})"
        )
        return f"{whose}, which its coordinator {past}; it hangs, and does not end by itself"
    if known.state in ENDING:
        return f"{whose}, which its coordinator is about to {ENDING[known.state].value}"
    return f"{whose}: it ends with its next commit, or {known.timeout_ms / 1000:g} s after it began"
