"""``kstreams-assign transactions``, the work: what an application's partitions hold open, and an end for what hangs.

What lives here: which partitions, and the texts. What must not: the judgement (``observe.transactions``), requests
(adapters).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.confluent.coordinators import OFFSETS_TOPIC, coordinator_partition
from kstreams_assign.adapters.confluent.transaction_log import logged_transactions
from kstreams_assign.adapters.kafka_python.transactions import TransactionsOnBrokers, transactions_on_brokers
from kstreams_assign.errors import BrokerError, BrokerUnavailable, ConfigError, MalformedUserData
from kstreams_assign.insight.record_text import printable
from kstreams_assign.model import TopicPartition
from kstreams_assign.observe.transactions import Decision, ExaminedTransaction, decided, in_words
from kstreams_assign.topology.internal import internal_topics_of
from kstreams_assign.wire.transaction_log import LoggedTransaction


@dataclass(frozen=True, slots=True)
class Asked:
    """What the caller wants. ``end``: write markers; ``given``: how, where no log tells."""

    application_id: str
    bootstrap_servers: str
    topics: Sequence[str] = ()
    client: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 10.0
    end: bool = False
    given: Decision | None = None


@dataclass(frozen=True, slots=True)
class OpenedTransaction:
    """An open transaction.

    ``decision``: how its coordinator ended it if it hangs; None, with ``why``, if that is unknown.

    ``failed``: why it could not be ended.
    """

    observed: ExaminedTransaction
    decision: Decision | None = None
    why: str = ""
    ended: Decision | None = None
    failed: str = ""

    @property
    def hangs(self) -> bool:
        """True too if no broker knows its producer any more."""
        return self.observed.in_vain and self.ended is None


@dataclass(frozen=True, slots=True)
class Look:
    """The open transactions. ``gaps``: what could not be read, and why."""

    open: list[OpenedTransaction]
    gaps: list[str]


def open_transactions(asked: Asked) -> Look:
    """Find open transactions; end those that hang if ``asked.end`` is set. Raises ``BrokerError``, ``ConfigError``."""
    admin = ClusterAdmin(asked.bootstrap_servers, asked.client)
    admin.reach(asked.timeout_s)
    with transactions_on_brokers(asked.bootstrap_servers, asked.client, asked.timeout_s) as brokers:
        partitions, offsets = _partitions(asked, admin, brokers)
        seen, gaps = brokers.look(partitions), []
        try:
            # Other groups have transactions in the same partition; any that hangs may hold this group's offsets.
            seen += [
                transaction
                for transaction in brokers.look(offsets)
                if transaction.hanging or transaction.of(asked.application_id)
            ]
        except BrokerUnavailable:
            raise
        except BrokerError as cause:
            gaps.append(f"the group's committed offsets could not be looked at: {cause}")
        logs = _Logs(asked)
        judged = [
            logs.look_up(transaction) if transaction.hanging else OpenedTransaction(transaction) for transaction in seen
        ]
        return Look([_ended(transaction, asked, brokers) if asked.end else transaction for transaction in judged], gaps)


def as_json(asked: Asked, look: Look) -> dict[str, Any]:
    """One object; ``decision`` and ``ended`` are ``commit``, ``abort`` or null."""
    return {
        "application_id": asked.application_id,
        "open": [_facts(transaction) for transaction in look.open],
        "gaps": look.gaps,
    }


def as_lines(asked: Asked, look: Look) -> list[str]:
    """Return a line for each, with the remedy."""
    nothing = [] if look.open else [f"{asked.application_id}: no partition has an open transaction"]
    return [
        *nothing,
        *(printable(f"{in_words(transaction.observed)}{_remedy(transaction)}") for transaction in look.open),
        *look.gaps,
    ]


def _remedy(transaction: OpenedTransaction) -> str:
    at = transaction.observed.open
    if transaction.ended is not None:
        return f"; ended now: {transaction.ended.value}"
    if transaction.failed:
        return f"; it could not be ended: {transaction.failed}"
    if transaction.observed.coordinated is None:
        drop = (
            f"abort --topic {at.partition.topic} --partition {at.partition.partition} --start-offset {at.start_offset}"
        )
        return f"; if it stays, Kafka's own tool drops what it wrote: kafka-transactions.sh ... {drop}"
    if not transaction.observed.hanging:
        return ""
    if transaction.decision is None:
        how = "--end --as commit, or --as abort, which drops what it wrote"
        return f"; how it was to end is not known ({transaction.why}): {how}"
    return f"; its coordinator had decided to {transaction.decision.value} it: --end writes that"


def _partitions(
    asked: Asked, admin: ClusterAdmin, brokers: TransactionsOnBrokers
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Return the partitions of internal, committed and named topics; and the partition of the group's offsets."""
    there = admin.topics(asked.timeout_s)
    if missing := sorted(set(asked.topics) - there.keys()):
        raise ConfigError(f"--topic {missing[0]}: there is no such topic")
    read = {at.topic for at in brokers.committed(asked.application_id)}
    internal = internal_topics_of(asked.application_id, there, admin.groups(asked.timeout_s))
    names = read.union(internal, asked.topics) & there.keys()
    if not names:
        raise ConfigError(
            f"{asked.application_id}: no topic is named after it, and it never committed: name some by --topic"
        )
    partitions = [TopicPartition(name, number) for name in sorted(names) for number in range(there[name])]
    count = there.get(OFFSETS_TOPIC, 0)
    return partitions, [
        TopicPartition(OFFSETS_TOPIC, coordinator_partition(asked.application_id, count))
    ] if count else []


class _Logs:
    """Coordinators' logs, each read once."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._read: dict[str, list[LoggedTransaction] | str] = {}

    def look_up(self, hanging: ExaminedTransaction) -> OpenedTransaction:
        """Raise ``BrokerUnavailable`` if the log cannot be read in time."""
        known = hanging.coordinated
        assert known is not None  # or it would not be said to hang
        log = self._log(known.transactional_id)
        if isinstance(log, str):
            return OpenedTransaction(hanging, why=log)
        decision = decided(hanging.open, log)
        return OpenedTransaction(hanging, decision, "" if decision else "its coordinator's log does not say")

    def _log(self, transactional_id: str) -> list[LoggedTransaction] | str:
        """Return the log, or why this user cannot read it."""
        if transactional_id not in self._read:
            asked = self._asked
            try:
                self._read[transactional_id] = logged_transactions(
                    asked.bootstrap_servers, asked.client, transactional_id, asked.application_id, asked.timeout_s
                )
            except BrokerUnavailable:
                raise
            except (BrokerError, MalformedUserData) as cause:
                self._read[transactional_id] = f"its coordinator's log cannot be read: {cause}"
        return self._read[transactional_id]


def _ended(transaction: OpenedTransaction, asked: Asked, brokers: TransactionsOnBrokers) -> OpenedTransaction:
    """End a transaction. ``asked.given`` decides only for the application's own, if its coordinator's log does not."""
    decision = transaction.decision or (asked.given if transaction.observed.of(asked.application_id) else None)
    if not transaction.observed.hanging or decision is None:
        return transaction
    try:
        # Its producer may be alive: check right before that it is the same transaction and still hangs.
        still_hanging = [other.open for other in brokers.look([transaction.observed.open.partition]) if other.hanging]
        if transaction.observed.open not in still_hanging:
            return replace(transaction, failed="it has changed meanwhile, look again")
        brokers.end(transaction.observed.open, decision)
    except BrokerError as cause:
        return replace(transaction, failed=str(cause))
    return replace(transaction, ended=decision)


def _facts(transaction: OpenedTransaction) -> dict[str, Any]:
    observed, known = transaction.observed, transaction.observed.coordinated
    return {
        "partition": str(observed.open.partition),
        "start_offset": observed.open.start_offset,
        "producer_id": observed.open.producer_id,
        "transactional_id": known.transactional_id if known else None,
        "hanging": observed.hanging,
        "producer_epoch": observed.open.producer_epoch,
        "state": known.state if known else None,
        "decision": transaction.decision.value if transaction.decision else None,
        "ended": transaction.ended.value if transaction.ended else None,
        "failed": transaction.failed or None,
        "text": f"{in_words(observed)}{_remedy(transaction)}",
    }
