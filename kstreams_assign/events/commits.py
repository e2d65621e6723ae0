"""Events of commits."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

from kstreams_assign.events.base import BaseEvent, ReasonEvent, WarningEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitDeferredEvent(ReasonEvent):
    """The input offsets could not all be committed now, as during a rebalance; the next commit has them."""

    name: ClassVar[str] = "commit_deferred"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsDroppedEvent(WarningEvent):
    """Input offsets are not committed, as the brokers do not know the partitions; all other offsets are."""

    name: ClassVar[str] = "offsets_dropped"
    partitions: tuple[str, ...]
    """Each as ``topic-partition``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRefusedEvent(ReasonEvent):
    """The group refused a commit, as this member is no longer part of the generation."""

    name: ClassVar[str] = "commit_refused"
    level: ClassVar[int] = logging.WARNING


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFailedEvent(BaseEvent):
    """Records of a commit were not acknowledged; its tasks go on from their last commit."""

    name: ClassVar[str] = "delivery_failed"
    level: ClassVar[int] = logging.WARNING
    reason: str
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionAbortedEvent(ReasonEvent):
    """A transaction is aborted; its tasks go on from their last commit."""

    name: ClassVar[str] = "transaction_aborted"
    level: ClassVar[int] = logging.WARNING
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRestartedEvent(ReasonEvent):
    """A rebalance ended while a transaction was under way; it is begun again, and nothing is processed again."""

    name: ClassVar[str] = "transaction_restarted"
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHungEvent(WarningEvent):
    """A call of the Kafka client does not return; another client takes over from it."""

    name: ClassVar[str] = "client_hung"


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeFailedEvent(WarningEvent):
    """Consumed records of a repartition topic could not be deleted."""

    name: ClassVar[str] = "purge_failed"
