"""Answer a query in this process: from the active task, or from a replica that is close enough to it.

The active task's store has what is committed and nothing else, and the process may answer for it only while its lease
lasts: after that the brokers may have given the task away. A replica's lag is counted to the end of the store's
changelog as it was after the query came, so the bound holds for the moment of the query. What must not live here: which
other process to ask (``query.search``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from kstreams_assign.errors import BrokerError, ConfigError
from kstreams_assign.model import TaskId, TopicPartition, TopologyShape
from kstreams_assign.query.messages import Answer, Found, Get, Owners, Reason, Refused, Role, Unanswered
from kstreams_assign.worker.fresh_ends import FreshEnds
from kstreams_assign.worker.lookup import Location, Lookup, Reading, StoreReader, peek

REBALANCE_RETRY_MS = 100
BUSY_RETRY_MS = 500


class RunningTasks(StoreReader, Protocol):
    """The thread that has the running tasks."""

    def runs(self, task: TaskId) -> bool: ...


class QueryAnswers:
    """Answers queries from any thread.

    ``lease_left_s`` and ``generation`` are the membership's; members compare their generations, so it is the group's.
    """

    def __init__(
        self,
        application_id: str,
        shape: TopologyShape,
        lookup: Lookup,
        running: RunningTasks,
        replicas: StoreReader,
        ends: FreshEnds,
        generation: Callable[[], int | None],
        lease_left_s: Callable[[], float],
        ending: Callable[[], bool],
    ) -> None:
        self._application_id = application_id
        self._shape = shape
        self._lookup = lookup
        self._running = running
        self._replicas = replicas
        self._ends = ends
        self._generation = generation
        self._lease_left_s = lease_left_s
        self._ending = ending

    def answer(self, get: Get) -> Answer:
        """Return the value, or why there is none and which processes may have it."""
        if self._ending():
            return Unanswered(Reason.NOT_READY, "the worker is ending")
        deadline_s = time.monotonic() + get.timeout_ms / 1000
        generation = self._generation()
        try:
            where = self._lookup.locate_partition(get.store, get.key, get.partition)
        except ConfigError as cause:
            return Refused("does_not_exist", str(cause))
        except BrokerError as cause:
            return Unanswered(Reason.NOT_READY, f"the topics are not known: {cause}", None, None, BUSY_RETRY_MS)
        owners = Owners(-1 if generation is None else generation, where.active, where.standbys)
        try:
            return self._active(get, where, owners, deadline_s) or self._replica(get, where, owners, deadline_s)
        except TimeoutError:
            text = f"task {where.task}: its thread is busy"
            return Unanswered(Reason.NOT_READY, text, owners, None, BUSY_RETRY_MS)

    def _active(self, get: Get, where: Location, owners: Owners, deadline_s: float) -> Answer | None:
        """Return the answer of the active task; None if it does not run here."""
        if not self._running.runs(where.task):
            return None
        reading = peek(self._running, where.task, get.store, get.key, deadline_s - time.monotonic())
        if reading is None:
            return None
        if self._lease_left_s() <= 0:  # asked after the read: until then no other process had the task
            text = f"task {where.task}: the group may have given it away, as no broker answers heartbeats"
            return Unanswered(Reason.NOT_READY, text, owners, None, BUSY_RETRY_MS)
        return self._found(get, reading, Role.ACTIVE, 0)

    def _replica(self, get: Get, where: Location, owners: Owners, deadline_s: float) -> Answer:
        """Return the answer of a replica, or why it cannot answer."""
        task = where.task
        changelog = self._shape.changelogs(self._application_id, task).get(get.store)
        if changelog is None:
            text = f"task {task} does not run here, and store {get.store!r} has no changelog"
            return Unanswered(Reason.NOT_PRESENT, text, owners)
        reading = peek(self._replicas, task, get.store, get.key, deadline_s - time.monotonic())
        if reading is None:
            text = f"task {task} is not here"
            return Unanswered(Reason.NOT_PRESENT, text, owners, None, REBALANCE_RETRY_MS)
        if get.max_lag is None:
            text = f"task {task} does not run here; its replica may answer if max_lag is given"
            return Unanswered(Reason.NOT_ACTIVE, text, owners, None, REBALANCE_RETRY_MS)
        try:
            end = self._ends.ask(changelog, deadline_s - time.monotonic())
        except (BrokerError, KeyError) as cause:
            text = f"task {task}: the end of {changelog} is not known: {cause}"
            return Unanswered(Reason.NOT_READY, text, owners, None, BUSY_RETRY_MS)
        if (lag := _lag(reading, changelog, end)) > get.max_lag:  # it may have read on since
            reading = peek(self._replicas, task, get.store, get.key, deadline_s - time.monotonic()) or reading
            lag = _lag(reading, changelog, end)
        if lag > get.max_lag:
            text = f"task {task}: its replica lacks {lag} offsets of the store's changelog; max_lag = {get.max_lag}"
            return Unanswered(Reason.NOT_UP_TO_BOUND, text, owners, lag, REBALANCE_RETRY_MS)
        return self._found(get, reading, Role.STANDBY, lag)

    def _found(self, get: Get, reading: Reading, role: Role, lag: int) -> Found:
        value, timestamp_ms = self._lookup.shown(get.store, reading.value)
        return Found(value, role, lag, timestamp_ms)


def _lag(reading: Reading, changelog: TopicPartition, end: int) -> int:
    return max(0, end - reading.positions.get(changelog, 0))
