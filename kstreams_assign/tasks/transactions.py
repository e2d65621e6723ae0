"""Transactions that a partition holds open, and whether they will ever end (KIP-664: hanging transactions).

Readers of committed records get no further than the first open transaction of a partition. Its coordinator ends it, at
its timeout at the latest, unless it takes it for ended already: then it hangs, and everybody waits for ever. What lives
here: values, the judgement, the words. What must not: asking (``adapters.kafka_python.transactions``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kstreams_assign.model import TopicPartition
from kstreams_assign.wire.transaction_log import AT_WORK, LoggedTransaction


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
    """An open transaction of a partition (DescribeProducers): committed reads stop at ``start_offset``."""

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
        """Its coordinator will write no marker for it, as it names the partition no more; whatever the epochs are.

        Never said where no coordinator knows the producer: its id may be gone, or be one that may not be described.
        """
        known = self.coordinated
        return known is not None and not (known.state in AT_WORK and self.open.partition in known.partitions)

    @property
    def in_vain(self) -> bool:
        """Return whether it probably never ends: it hangs, or no coordinator knows its producer any more."""
        return self.hanging or self.coordinated is None

    def of(self, application_id: str) -> bool:
        """Return whether a producer of this application began it, by its transactional id."""
        return self.coordinated is not None and self.coordinated.transactional_id.startswith(f"{application_id}-")


@dataclass(frozen=True, slots=True)
class HeldUp:
    """Why a task stands still: the words, and whether what it waits for never ends."""

    text: str
    hangs: bool


def still_open(before: Iterable[OpenTransaction], after: Iterable[OpenTransaction]) -> list[OpenTransaction]:
    """Return the transactions of ``after`` that are also in ``before``; others have just ended or begun."""
    there = {(one.partition, one.producer_id, one.start_offset) for one in before}
    return [one for one in after if (one.partition, one.producer_id, one.start_offset) in there]


def decided(hanging: OpenTransaction, log: Iterable[LoggedTransaction]) -> Decision | None:
    """How its coordinator ended it, by the coordinator's own log in order; None where the log does not tell (any more).

    The last step that names the partition tells: any marker that followed an earlier end would have closed it. If that
    is no end, none was decided.
    """
    of_producer = [one for one in log if one.producer_id == hanging.producer_id and one.state in AT_WORK]
    last = next((one for one in reversed(of_producer) if hanging.partition in one.partitions), None)
    if last is None or last.producer_epoch < hanging.producer_epoch:
        return None
    return ENDING.get(last.state)


def facts_of(found: Found) -> dict[str, Any]:
    """For events and JSON; ``transactional_id`` is null where no coordinator knows the producer."""
    return {
        "partition": str(found.open.partition),
        "start_offset": found.open.start_offset,
        "producer_id": found.open.producer_id,
        "transactional_id": found.coordinated.transactional_id if found.coordinated else None,
        "hanging": found.hanging,
    }


def in_words(found: Found) -> str:
    """One clause: what is open, whose it is, and whether it will end."""
    where = f"{found.open.partition} has an open transaction from offset {found.open.start_offset} on"
    known = found.coordinated
    if known is None:
        return f"{where}, of producer {found.open.producer_id}, which no coordinator that may be asked knows (any more)"
    whose = f"{where}, of {known.transactional_id}"
    if found.hanging:
        past = (
            "has left behind: its next one is under way"
            if known.state in AT_WORK
            else f"takes for ended ({known.state})"
        )
        return f"{whose}, which its coordinator {past}; it hangs, and does not end by itself"
    if known.state in ENDING:
        return f"{whose}, which its coordinator is about to {ENDING[known.state].value}"
    return f"{whose}: it ends with its next commit, or {known.timeout_ms / 1000:g} s after it began"
