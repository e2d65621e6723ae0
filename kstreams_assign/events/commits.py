"""Events of commits."""

from __future__ import annotations

from typing import Literal

from kstreams_assign.events.base import BaseEvent, ReasonEvent, WarningEvent


class CommitDeferredEvent(ReasonEvent):
    """The input offsets could not be committed now, as during a rebalance; the next commit has them."""

    event: Literal["commit_deferred"]


class CommitRefusedEvent(ReasonEvent):
    """The group refused a commit, as this member is no longer part of the generation."""

    event: Literal["commit_refused"]


class DeliveryFailedEvent(BaseEvent):
    """Records of a commit were not acknowledged; its tasks go on from their last commit."""

    event: Literal["delivery_failed"]
    reason: str
    warnings: list[str]


class TransactionAbortedEvent(ReasonEvent):
    """A transaction is aborted; its tasks go on from their last commit."""

    event: Literal["transaction_aborted"]
    tasks: list[str]


class ClientHungEvent(WarningEvent):
    """A call of the Kafka client does not return; another client takes over from it."""

    event: Literal["client_hung"]


class PurgeFailedEvent(WarningEvent):
    """Consumed records of a repartition topic could not be deleted."""

    event: Literal["purge_failed"]
