"""``kstreams-assign transactions``, the work: what an application's partitions hold open, and an end for what hangs.

What lives here: which partitions, in what words. What must not: the judgement (``tasks.transactions``), the asking (adapters).
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
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.transactions import Decision, ExaminedTransaction, decided, facts_of, in_words
from kstreams_assign.topology.internal import is_internal
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
class Told:
    """One open transaction. ``decision``: how its coordinator ended one that hangs, None with ``why`` where that is not known.

    ``failed``: why it could not be ended.
    """

    found: ExaminedTransaction
    decision: Decision | None = None
    why: str = ""
    ended: Decision | None = None
    failed: str = ""

    @property
    def hangs(self) -> bool:
        """Or may: nobody knows its producer any more."""
        return self.found.in_vain and self.ended is None


@dataclass(frozen=True, slots=True)
class Look:
    """What was found. ``gaps``: what could not be looked at, and why."""

    open: list[Told]
    gaps: list[str]


def open_transactions(asked: Asked) -> Look:
    """Look, and end what hangs if that was asked for. Raises ``BrokerError``, ``ConfigError``."""
    admin = ClusterAdmin(asked.bootstrap_servers, asked.client)
    admin.reach(asked.timeout_s)
    with transactions_on_brokers(asked.bootstrap_servers, asked.client, asked.timeout_s) as brokers:
        here, offsets = _partitions(asked, admin, brokers)
        found, gaps = brokers.look(here), []
        try:
            # Other groups have theirs open in the same partition; one that hangs may be about this group's offsets, whoever began it.
            found += [one for one in brokers.look(offsets) if one.hanging or one.of(asked.application_id)]
        except BrokerUnavailable:
            raise
        except BrokerError as cause:
            gaps.append(f"the group's committed offsets could not be looked at: {cause}")
        logs = _Logs(asked)
        told = [logs.look_up(one) if one.hanging else Told(one) for one in found]
        return Look([_ended(one, asked, brokers) if asked.end else one for one in told], gaps)


def as_json(asked: Asked, look: Look) -> dict[str, Any]:
    """One object; ``decision`` and ``ended`` are ``commit``, ``abort`` or null."""
    return {"application_id": asked.application_id, "open": [_facts(one) for one in look.open], "gaps": look.gaps}


def as_lines(asked: Asked, look: Look) -> list[str]:
    """A line for each, and what to do."""
    nothing = [] if look.open else [f"{asked.application_id}: no partition has an open transaction"]
    return [*nothing, *(f"{in_words(one.found)}{_remedy(one)}" for one in look.open), *look.gaps]


def _remedy(told: Told) -> str:
    at = told.found.open
    if told.ended is not None:
        return f"; ended now: {told.ended.value}"
    if told.failed:
        return f"; it could not be ended: {told.failed}"
    if told.found.coordinated is None:
        drop = (
            f"abort --topic {at.partition.topic} --partition {at.partition.partition} --start-offset {at.start_offset}"
        )
        return f"; if it stays, Kafka's own tool drops what it wrote: kafka-transactions.sh ... {drop}"
    if not told.found.hanging:
        return ""
    if told.decision is None:
        return f"; how it was to end is not known ({told.why}): --end --as commit, or --as abort, which drops what it wrote"
    return f"; its coordinator had decided to {told.decision.value} it: --end writes that"


def _partitions(
    asked: Asked, admin: ClusterAdmin, brokers: TransactionsOnBrokers
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Internal topics, topics that the group has committed offsets of, those that were named; and where its offsets are kept."""
    there = admin.topics(asked.timeout_s)
    if missing := sorted(set(asked.topics) - there.keys()):
        raise ConfigError(f"--topic {missing[0]}: there is no such topic")
    read = {at.topic for at in brokers.committed(asked.application_id)}
    internal = {name for name in there if is_internal(asked.application_id, name)}
    names = (read | internal | set(asked.topics)) & there.keys()
    if not names:
        raise ConfigError(
            f"{asked.application_id}: no topic is named after it, and it never committed: name some by --topic"
        )
    found = [TopicPartition(name, number) for name in sorted(names) for number in range(there[name])]
    count = there.get(OFFSETS_TOPIC, 0)
    return found, [TopicPartition(OFFSETS_TOPIC, coordinator_partition(asked.application_id, count))] if count else []


class _Logs:
    """Coordinators' logs, each read once."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._read: dict[str, list[LoggedTransaction] | str] = {}

    def look_up(self, hanging: ExaminedTransaction) -> Told:
        """Raises ``BrokerUnavailable``: what could not be read in time may well tell."""
        known = hanging.coordinated
        assert known is not None  # or it would not be said to hang
        log = self._log(known.transactional_id)
        if isinstance(log, str):
            return Told(hanging, why=log)
        decision = decided(hanging.open, log)
        return Told(hanging, decision, "" if decision else "its coordinator's log does not tell")

    def _log(self, transactional_id: str) -> list[LoggedTransaction] | str:
        """Or why it cannot be read by this user."""
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


def _ended(told: Told, asked: Asked, brokers: TransactionsOnBrokers) -> Told:
    """``asked.given`` decides about the application's own alone, and where nothing else does."""
    decision = told.decision or (asked.given if told.found.of(asked.application_id) else None)
    if not told.found.hanging or decision is None:
        return told
    try:
        # Its producer may live: so just before, whether it is still the same, and still left behind.
        again = [one.open for one in brokers.look([told.found.open.partition]) if one.hanging]
        if told.found.open not in again:
            return replace(told, failed="it has changed meanwhile, look again")
        brokers.end(told.found.open, decision)
    except BrokerError as cause:
        return replace(told, failed=str(cause))
    return replace(told, ended=decision)


def _facts(told: Told) -> dict[str, Any]:
    known = told.found.coordinated
    return {
        **facts_of(told.found),
        "producer_epoch": told.found.open.producer_epoch,
        "state": known.state if known else None,
        "decision": told.decision.value if told.decision else None,
        "ended": told.ended.value if told.ended else None,
        "failed": told.failed or None,
        "text": f"{in_words(told.found)}{_remedy(told)}",
    }
