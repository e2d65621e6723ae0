"""Tasks that stand still before an open transaction: whose it is, and whether it will end.

Under exactly once a changelog is read as far as its first open transaction, and input positions are told once the group's offsets have
none. Mostly a dead owner's, over at its timeout; one that hangs (KIP-664) never ends, and is told with the remedy. What must not live
here: the judgement (``tasks.transactions``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

from kstreams_assign.adapters.confluent.coordinators import OFFSETS_TOPIC
from kstreams_assign.errors import BrokerError
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.restore.progress import TaskProgress
from kstreams_assign.tasks.transactions import Found, HeldUp, in_words
from kstreams_assign.worker.events import EventLog

STILL_MS = 10_000
"""Who has not moved for so long is looked into; a commit takes less."""
AGAIN_MS = 10_000


class Look(Protocol):
    """Asks the brokers about these partitions, and with ``offsets`` about the one that holds the group's. Raises ``BrokerError``."""

    def __call__(self, partitions: Iterable[TopicPartition], *, offsets: bool) -> list[Found]: ...


Still = Mapping[TopicPartition, tuple[TaskId, int]]
"""Changelog -> the task that reads it, and the offset where it stands."""


def standing_still(progress: Mapping[TaskId, TaskProgress], now_ms: int) -> Still:
    """Changelogs that are not read to their end, of tasks that have not moved for ``STILL_MS``."""
    still = {task: one for task, one in progress.items() if now_ms - one.moved_at_ms >= STILL_MS}
    return {
        name: (task, at.position) for task, one in still.items() for name, at in one.partitions.items() if not at.done
    }


def held_up(found: Iterable[Found], still: Still, without: Iterable[TaskId]) -> list[tuple[TaskId, Found]]:
    """Which task waits for which of these.

    Who stands before a transaction waits for something else. The group's offsets share their partition with other groups'; whose is
    open there is not told, so only one that hangs counts.
    """
    waits = []
    for one in found:
        if one.open.partition in still:
            task, position = still[one.open.partition]
            waits += [(task, one)] if one.open.start_offset <= position else []
        elif one.hanging and one.open.partition.topic == OFFSETS_TOPIC:
            waits += [(task, one) for task in without]
    return waits


class WaitingTasks:
    """Looks into it now and then, on a thread of its own. ``turn`` and ``close`` are one thread's; any may ask ``told``."""

    def __init__(self, application_id: str, bootstrap_servers: str, look: Look, log: EventLog) -> None:
        self._remedy = f"kstreams-assign transactions {application_id} -b {bootstrap_servers} --end"
        self._look = look
        self._log = log
        self._asking = ThreadPoolExecutor(1, "kstreams-transactions")
        self._asked: Future[list[Found]] | None = None
        self._next_ms = 0
        self._told: Mapping[TaskId, HeldUp] = {}

    def told(self) -> Mapping[TaskId, HeldUp]:
        """The tasks that were found waiting when it was last looked into."""
        return self._told

    def turn(self, progress: Mapping[TaskId, TaskProgress], unanswered: Mapping[TaskId, int], now_ms: int) -> None:
        """Take an answer that has come, and ask if it is time and there is a reason.

        ``unanswered``: tasks whose input positions the brokers do not tell, and since when.
        """
        still = standing_still(progress, now_ms)
        without = sorted(task for task, since_ms in unanswered.items() if now_ms - since_ms >= STILL_MS)
        if self._asked is not None:
            self._take(self._asked, still, without)
        elif not (still or without):
            self._tell([])
        elif now_ms >= self._next_ms:
            self._next_ms = now_ms + AGAIN_MS
            self._asked = self._asking.submit(self._look, list(still), offsets=bool(without))

    def close(self) -> None:
        self._asking.shutdown(cancel_futures=True)

    def _take(self, asked: Future[list[Found]], still: Still, without: Iterable[TaskId]) -> None:
        if not asked.done():
            return
        self._asked = None
        try:
            self._tell(held_up(asked.result(), still, without))
        except BrokerError as cause:
            self._log.emit("lookup_failed", what="open transactions", reason=str(cause))

    def _tell(self, found: list[tuple[TaskId, Found]]) -> None:
        waits = {task: HeldUp(in_words(one), one.hanging) for task, one in found}
        if waits == self._told:
            return
        self._told = waits
        warnings = [f"{task} waits: {wait.text}; {self._remedy}" for task, wait in waits.items() if wait.hangs]
        facts = [_facts(task, one) for task, one in found]
        self._log.emit("waiting_for_transactions", transactions=facts, warnings=warnings)


def _facts(task: TaskId, found: Found) -> dict[str, Any]:
    return {
        "task": str(task),
        "partition": str(found.open.partition),
        "start_offset": found.open.start_offset,
        "producer_id": found.open.producer_id,
        "transactional_id": found.coordinated.transactional_id if found.coordinated else None,
        "hanging": found.hanging,
    }
