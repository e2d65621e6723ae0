"""``kstreams-assign transactions``, the work: what an application's partitions hold open, and an end for what hangs.

What lives here: which partitions, in what words. What must not: the judgement (``tasks.transactions``), the asking (adapters).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.confluent.coordinators import OFFSETS_TOPIC, coordinator_partition
from kstreams_assign.adapters.confluent.transaction_log import logged_transactions
from kstreams_assign.adapters.kafka_python.transactions import TransactionsOnBrokers, transactions_on_brokers
from kstreams_assign.errors import BrokerError, ConfigError, MalformedUserData
from kstreams_assign.model import TopicPartition
from kstreams_assign.tasks.transactions import Decision, Found, decided, in_words
from kstreams_assign.topology.internal import is_internal


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
    """One open transaction. ``decision``: how its coordinator ended one that hangs, None with ``why`` where that is not known."""

    found: Found
    decision: Decision | None = None
    why: str = ""
    ended: Decision | None = None

    @property
    def hangs(self) -> bool:
        return self.found.hanging and self.ended is None


def open_transactions(asked: Asked) -> list[Told]:
    """Look, and end what hangs if that was asked for. Raises ``BrokerError``, ``ConfigError``."""
    with transactions_on_brokers(asked.bootstrap_servers, asked.client, asked.timeout_s) as brokers:
        here = _partitions(asked, brokers)
        # Other groups have theirs open in the same partition of the group's offsets.
        found = [one for one in brokers.look(here) if one.hanging or one.open.partition.topic != OFFSETS_TOPIC]
        told = [_looked_up(one, asked) if one.hanging else Told(one) for one in found]
        return [_ended(one, asked.given, brokers) if asked.end else one for one in told]


def as_json(asked: Asked, told: Iterable[Told]) -> dict[str, Any]:
    """One object; ``decision`` and ``ended`` are ``commit``, ``abort`` or null."""
    return {"application_id": asked.application_id, "open": [_facts(one) for one in told]}


def as_lines(asked: Asked, told: Sequence[Told]) -> list[str]:
    """A line for each, and what to do."""
    if not told:
        return [f"{asked.application_id}: no partition has an open transaction"]
    return [f"{in_words(one.found)}{_remedy(one)}" for one in told]


def _remedy(told: Told) -> str:
    if told.ended is not None:
        return f"; ended now: {told.ended.value}"
    if not told.found.hanging:
        return ""
    if told.decision is None:
        return f"; how it was to end is not known ({told.why}): --end --as commit, or --as abort, which drops what it wrote"
    return f"; its coordinator had decided to {told.decision.value} it: --end writes that"


def _partitions(asked: Asked, brokers: TransactionsOnBrokers) -> list[TopicPartition]:
    """Internal topics, topics that the group has committed offsets of, those that were named, and where its offsets are kept."""
    admin = ClusterAdmin(asked.bootstrap_servers, asked.client)
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
    if count := there.get(OFFSETS_TOPIC, 0):
        found.append(TopicPartition(OFFSETS_TOPIC, coordinator_partition(asked.application_id, count)))
    return found


def _looked_up(hanging: Found, asked: Asked) -> Told:
    known = hanging.coordinated
    assert known is not None  # or it would not be said to hang
    try:
        log = logged_transactions(
            asked.bootstrap_servers, asked.client, known.transactional_id, asked.application_id, asked.timeout_s
        )
    except (BrokerError, MalformedUserData) as cause:
        return Told(hanging, why=f"its coordinator's log cannot be read: {cause}")
    decision = decided(hanging.open, log)
    return Told(hanging, decision, "" if decision else "its coordinator's log no longer tells")


def _ended(told: Told, given: Decision | None, brokers: TransactionsOnBrokers) -> Told:
    decision = told.decision or given
    if not told.found.hanging or decision is None:
        return told
    brokers.end(told.found.open, decision)
    return Told(told.found, told.decision, told.why, ended=decision)


def _facts(told: Told) -> dict[str, Any]:
    at, known = told.found.open, told.found.coordinated
    return {
        "partition": str(at.partition),
        "start_offset": at.start_offset,
        "producer_id": at.producer_id,
        "producer_epoch": at.producer_epoch,
        "transactional_id": known.transactional_id if known else None,
        "state": known.state if known else None,
        "hanging": told.found.hanging,
        "decision": told.decision.value if told.decision else None,
        "ended": told.ended.value if told.ended else None,
        "text": f"{in_words(told.found)}{_remedy(told)}",
    }
