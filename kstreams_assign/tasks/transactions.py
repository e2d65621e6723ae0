"""Transactions that a partition holds open, and whether they will ever end (KIP-664: hanging transactions).

Readers of committed records get no further than the first open transaction of a partition. Its coordinator ends it, at its
timeout at the latest, unless it takes it for ended already: then it hangs, and everybody waits for ever. What lives here: values,
the judgement, the words. What must not: asking (``adapters.kafka_python.transactions``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from kstreams_assign.model import TopicPartition
from kstreams_assign.wire.transaction_log import AT_WORK, LoggedTransaction

ONGOING = "Ongoing"


class Decision(Enum):
    """How a transaction ends."""

    COMMIT = "commit"
    ABORT = "abort"


ENDING: Mapping[str, Decision] = {
    "PrepareCommit": Decision.COMMIT,
    "PrepareAbort": Decision.ABORT,
    "PrepareEpochFence": Decision.ABORT,
}
"""States in which a coordinator writes its markers -> which."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """What a partition's leader holds open (DescribeProducers): nobody reads committed records from ``start_offset`` on."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class Coordinated:
    """What a coordinator has under a transactional id, in Kafka's words (DescribeTransactions)."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Found:
    """An open transaction, and what its coordinator says; None where none that may be asked knows the producer."""

    open: OpenTransaction
    coordinated: Coordinated | None

    @property
    def hanging(self) -> bool:
        """Its coordinator will write no marker for it. Never said where no coordinator knows the producer."""
        known = self.coordinated
        if known is None:
            return False
        if known.state == ONGOING and known.producer_epoch > self.open.producer_epoch:
            return True  # that one began later (KIP-890: each has an epoch of its own)
        return not (known.state in AT_WORK and self.open.partition in known.partitions)


@dataclass(frozen=True, slots=True)
class HeldUp:
    """Why a task stands still: the words, and whether what it waits for never ends."""

    text: str
    hangs: bool


def still_open(before: Iterable[OpenTransaction], after: Iterable[OpenTransaction]) -> list[OpenTransaction]:
    """Those that were there before the coordinators were asked and afterwards: others have just ended, or just begun."""
    there = {(one.partition, one.producer_id, one.start_offset) for one in after}
    return [one for one in before if (one.partition, one.producer_id, one.start_offset) in there]


def decided(hanging: OpenTransaction, log: Iterable[LoggedTransaction]) -> Decision | None:
    """How its coordinator ended it, by the coordinator's own log in order; None where the log no longer tells.

    The last decision that names the partition: any marker that followed an earlier one would have closed it.
    """
    ends = [one for one in log if one.state in ENDING and one.producer_id == hanging.producer_id]
    found = [one for one in ends if hanging.partition in one.partitions]
    return ENDING[found[-1].state] if found and found[-1].producer_epoch >= hanging.producer_epoch else None


def in_words(found: Found) -> str:
    """One clause: what is open, whose it is, and whether it will end."""
    where = f"{found.open.partition} has an open transaction from offset {found.open.start_offset} on"
    known = found.coordinated
    if known is None:
        return f"{where}, of producer {found.open.producer_id}, which no coordinator that may be asked knows"
    whose = f"{where}, of {known.transactional_id}"
    if found.hanging:
        return f"{whose}, which its coordinator takes for ended ({known.state}): it hangs, and does not end by itself"
    if known.state in ENDING:
        return f"{whose}, which its coordinator is about to {ENDING[known.state].value}"
    return f"{whose}: it ends with its next commit, or {known.timeout_ms / 1000:g} s after it began"
