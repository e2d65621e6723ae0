"""Tasks that stand still before an open transaction: whose it is, and whether it will end.

Under exactly once changelogs and inputs are read as far as their first open transaction, and input positions are told once the group's offsets have
none. Mostly a dead owner's, over at its timeout; one that hangs (KIP-664) never ends, and is told with the remedy. What must not live
here: the judgement (``tasks.transactions``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple, Protocol

from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.confluent.coordinators import OFFSETS_TOPIC, kept_in
from kstreams_assign.adapters.kafka_python.transactions import transactions_on_brokers
from kstreams_assign.config import Config
from kstreams_assign.errors import BrokerError
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.restore.progress import TaskProgress
from kstreams_assign.tasks.transactions import Found, HeldUp, facts_of, in_words
from kstreams_assign.topology.internal import is_internal
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.input_progress import InputProgress
from kstreams_assign.worker.sender import Sender

STILL_MS = 10_000
"""Who has not moved for so long is looked into; a commit takes less."""
AGAIN_MS = 10_000
IDLE_AGAIN_MS = 60_000
"""Where nobody is held up but at the end of an input: there the last transaction's marker looks like a record to come."""


class Look(Protocol):
    """Asks the brokers about these partitions, and with ``offsets`` about the one that holds the group's. Raises ``BrokerError``."""

    def __call__(self, partitions: Iterable[TopicPartition], *, offsets: bool) -> list[Found]: ...


def look_of(config: Config, admin: ClusterAdmin, log: EventLog, timeout_s: float) -> Look:
    """A worker's. Where the group's offsets may not be looked at, which not all may, the rest is."""

    def look(partitions: Iterable[TopicPartition], *, offsets: bool) -> list[Found]:
        with transactions_on_brokers(config.bootstrap_servers, config.client, timeout_s) as brokers:
            found = brokers.look(partitions)
            try:
                if offsets:
                    found += brokers.look([kept_in(admin, OFFSETS_TOPIC, config.application_id, timeout_s)])
            except BrokerError as cause:
                log.emit("lookup_failed", what="transactions in the group's offsets", reason=str(cause))
            return found

    return look


class Still(NamedTuple):
    """Who has not moved for ``STILL_MS``, though there is more to read.

    ``changelogs``: the task that reads one, and the offset where it stands; ``inputs``: whose they are; ``without``: tasks whose input
    positions the brokers do not tell.
    """

    changelogs: Mapping[TopicPartition, tuple[TaskId, int]]
    inputs: Mapping[TopicPartition, TaskId]
    without: Sequence[TaskId]

    @property
    def tasks(self) -> set[TaskId]:
        return {*self.without, *self.inputs.values(), *(task for task, _ in self.changelogs.values())}

    @property
    def again_ms(self) -> int:
        """How long after a question the next one is due."""
        return AGAIN_MS if self.changelogs or self.without else IDLE_AGAIN_MS


def _changelogs(progress: Mapping[TaskId, TaskProgress], now_ms: int) -> dict[TopicPartition, tuple[TaskId, int]]:
    still = {task: one for task, one in progress.items() if now_ms - one.moved_at_ms >= STILL_MS}
    return {
        name: (task, at.position) for task, one in still.items() for name, at in one.partitions.items() if not at.done
    }


def _inputs(inputs: Mapping[TopicPartition, InputProgress], now_ms: int) -> dict[TopicPartition, TaskId]:
    return {name: at.task for name, at in inputs.items() if at.lag and now_ms - at.moved_at_ms >= STILL_MS}


def held_up(application_id: str, found: Iterable[Found], still: Still) -> list[tuple[TaskId, Found]]:
    """Which task waits for which of these.

    Who stands before a transaction in a changelog waits for something else. Of an input only what hangs is told: others write there, whose ids
    may not be ours to describe, and before it there may be slow work, or markers. The group's offsets share their partition with other
    groups', so there only the application's own count.
    """
    waits = []
    for one in found:
        if one.open.partition in still.changelogs:
            task, position = still.changelogs[one.open.partition]
            waits += [(task, one)] if one.open.start_offset <= position else []
        elif one.open.partition in still.inputs:
            waits += [(still.inputs[one.open.partition], one)] if one.hanging else []
        elif one.of(application_id) and one.open.partition.topic == OFFSETS_TOPIC:
            waits += [(task, one) for task in still.without]
    return waits


class WaitingTasks:
    """Looks into it now and then, on a thread of its own. ``turn`` and ``close`` are one thread's; any may ask ``told``."""

    def __init__(self, application_id: str, bootstrap_servers: str, look: Look, log: EventLog) -> None:
        self._remedy = f"kstreams-assign transactions {application_id} -b {bootstrap_servers} --end"
        """Finds by itself what has the application's name, and what it has committed offsets of."""
        self._application_id = application_id
        self._look = look
        self._log = log
        self._asking: Sender | None = None
        self._asked: Future[list[Found]] | None = None
        self._asked_at_ms = -IDLE_AGAIN_MS
        self._found: Mapping[TaskId, Found] = {}

    def told(self) -> Mapping[TaskId, HeldUp]:
        """The tasks that were found waiting when it was last looked into."""
        return _held_up(self._found)

    def turn(
        self,
        progress: Mapping[TaskId, TaskProgress],
        inputs: Mapping[TopicPartition, InputProgress],
        unanswered: Mapping[TaskId, int],
        now_ms: int,
    ) -> None:
        """Take an answer that has come, and ask if it is time and there is a reason.

        ``unanswered``: tasks whose input positions the brokers do not tell, and since when.
        """
        without = sorted(task for task, since_ms in unanswered.items() if now_ms - since_ms >= STILL_MS)
        still = Still(_changelogs(progress, now_ms), _inputs(inputs, now_ms), without)
        waiting = still.tasks
        self._tell({task: found for task, found in self._found.items() if task in waiting})
        if self._asked is not None:
            self._take(self._asked, still)
        elif waiting and now_ms - self._asked_at_ms >= still.again_ms:
            self._asked_at_ms = now_ms
            self._ask(sorted({*still.changelogs, *still.inputs}), offsets=bool(without))

    def close(self) -> None:
        """Whoever asks is left behind."""
        if self._asking is not None:
            self._asking.close(0)

    def _ask(self, partitions: list[TopicPartition], *, offsets: bool) -> None:
        self._asking = self._asking or Sender("kstreams-transactions")
        self._asked = self._asking.submit(lambda: self._look(partitions, offsets=offsets))

    def _take(self, asked: Future[list[Found]], still: Still) -> None:
        if not asked.done():
            return
        self._asked = None
        try:
            found = held_up(self._application_id, asked.result(), still)
        except BrokerError as cause:
            self._log.emit("lookup_failed", what="open transactions", reason=str(cause))
            return
        # Of several that one task waits for, one that does not end comes last, and is told.
        self._tell(dict(sorted(found, key=lambda of: of[1].in_vain)))

    def _tell(self, found: Mapping[TaskId, Found]) -> None:
        told, self._found = _held_up(self._found), found
        if (news := _held_up(found)) == told:
            return
        warnings = [
            f"{task} waits: {news[task].text}; {self._remedy}{self._named(one.open.partition.topic)}"
            for task, one in found.items()
            if one.in_vain
        ]
        facts = [{"task": str(task), **facts_of(one)} for task, one in found.items()]
        self._log.emit("waiting_for_transactions", transactions=facts, warnings=warnings)

    def _named(self, topic: str) -> str:
        return "" if topic == OFFSETS_TOPIC or is_internal(self._application_id, topic) else f" --topic {topic}"


def _held_up(found: Mapping[TaskId, Found]) -> dict[TaskId, HeldUp]:
    return {task: HeldUp(in_words(one), one.in_vain) for task, one in found.items()}
