"""``GroupMember``: the membership alone, for programs that have a loop, stores and clients of their own.

What lives here: the member, and the leader if it is elected, as events out and reports in. What must not: records, stores,
state directories; whoever uses this moves the data. ``Worker`` is for everybody else.

The idea: a rebalance is three questions to the program. *Commit* what you have processed, before we join. *Adopt* this
assignment: write, commit and close what is gone, begin what is new. *Drop* everything, it runs elsewhere. Each is an event, and
the program says when it has done it; meanwhile heartbeats go on from a thread of their own.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from uuid import UUID

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.adapters.confluent import ClusterAdmin, CommittedOffsets
from kstreams_assign.adapters.confluent.transactions import group_metadata, librdkafka_writes, refuse_unknown_metadata
from kstreams_assign.config import Config
from kstreams_assign.errors import BrokerError
from kstreams_assign.events import EventListener
from kstreams_assign.group import member as machine
from kstreams_assign.group.values import Adopted
from kstreams_assign.model import SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.mutex import ReportMutex, hold_limit_ms
from kstreams_assign.topology.internal import refuse_impossible_names
from kstreams_assign.worker.connecting import group_client
from kstreams_assign.worker.early import EarlyProbing
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.leading import Leading
from kstreams_assign.worker.membership import Membership
from kstreams_assign.worker.past import Past

LEAVE_TIMEOUT_S = 5.0
Partitions = Mapping[TaskId, tuple[TopicPartition, ...]]


@dataclass(frozen=True, slots=True)
class CommitDue:
    """A rebalance begins: ``commit`` what was processed, then call ``ready_to_join``. Processing may go on meanwhile.

    From then to the next ``Assignment`` the broker refuses commits (``CommitDeferred``).
    """


@dataclass(frozen=True, slots=True)
class Assignment:
    """What this member has from now on: ``active`` tasks with their input partitions, copies to keep, copies to warm up.

    Tasks that are ``gone`` were active here: write and commit what they have, close them, then call ``let_go``. Without any
    ``gone`` call it at once. What is new in ``active`` is to be restored to the end of its changelogs before it runs.
    """

    generation: int
    active: Partitions
    standby: frozenset[TaskId]
    warmup: frozenset[TaskId]
    gone: frozenset[TaskId]


@dataclass(frozen=True, slots=True)
class Lost:
    """The group went on without this member: drop everything, and write or commit nothing of it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Drained:
    """After ``drain``: this member has no task any more, or nobody can take them over warm. Leave now."""


GroupEvent = CommitDue | Assignment | Lost | Drained


class GroupMember:
    """One member of a Kafka Streams group. Use it as a context manager; leaving it leaves the group.

    ``process_id`` is this process's identity: keep it across restarts, or the group reshuffles. ``topology`` lists what
    each subtopology reads and stores; the leader creates the changelogs, named ``<application id>-<store>-changelog``.
    Methods may be called from any thread. Raises ``ConfigError`` for settings that cannot be or that the brokers refuse,
    ``BrokerUnavailable``.
    """

    def __init__(
        self,
        config: Config,
        topology: Sequence[SubtopologyShape],
        process_id: UUID,
        *,
        on_event: EventListener | None = None,
    ) -> None:
        if config.exactly_once:
            refuse_unknown_metadata(librdkafka_writes)
        self._config = config
        self._shape = shape = TopologyShape(tuple(topology))
        refuse_impossible_names(shape, config.application_id)
        self._log = EventLog(str(process_id), on_event)
        self._sums = OffsetSums()
        self._mutex = ReportMutex(clock_ms=monotonic_ms, hold_ms=hold_limit_ms(config.max_poll_interval_ms))
        self._events: queue.SimpleQueue[GroupEvent | None] = queue.SimpleQueue()
        self._failure: BaseException | None = None
        self._ending = threading.Event()
        self._active: frozenset[TaskId] = frozenset()
        admin = ClusterAdmin(config.bootstrap_servers, config.client)
        self._committed = CommittedOffsets(
            config.bootstrap_servers, config.client, group_id=config.application_id, stable=config.exactly_once
        )
        leading = Leading(config, shape, process_id, admin, self._committed, self._log)
        self._early = EarlyProbing(
            config, process_id, self._sums, admin, leading.end_offset_sums, self.rejoin, self._log
        )
        self._membership = Membership(
            config,
            shape,
            process_id,
            self,
            leading,
            self._sums,
            self._mutex,
            self._log,
            lambda membership: group_client(config, shape, admin, membership),
            self._early.adopted,
            lambda: self._events.put(Drained()),
            Past(config, None, self._log),
        )
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), name=f"kstreams-{name}", daemon=True)
            for name, work in (
                ("membership", self._membership.run),
                ("early-probing", lambda: self._early.run(self._ending)),
            )
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._membership.close()
        for thread in self._threads:
            thread.join()
        try:
            self._membership.leave(LEAVE_TIMEOUT_S)
        except BrokerError as cause:
            self._log.emit("leave_failed", reason=str(cause))
        self._committed.close()

    # --- events out --------------------------------------------------------------------

    def poll(self, timeout_s: float) -> GroupEvent | None:
        """The next event, or None when there is none in time.

        Raises what made membership impossible: a leader that refuses, a topology that does not match, settings.
        """
        try:
            event = self._events.get(timeout=timeout_s) if timeout_s > 0 else self._events.get_nowait()
        except queue.Empty:
            event = None
        if event is None and self._failure is not None:
            raise self._failure
        return event

    # --- answers -----------------------------------------------------------------------

    def ready_to_join(self) -> None:
        """The answer to ``CommitDue``."""
        self._membership.handle(machine.WorkCommitted())

    def let_go(self) -> None:
        """The answer to ``Assignment``: everything that is gone is written, committed and closed."""
        self._membership.handle(machine.TasksReleased())

    # --- reports in: how far the state of each task is ----------------------------------

    def running(self, task: TaskId) -> None:
        """An active task is restored and runs."""
        self._sums.running(task)

    def at(self, task: TaskId, next_offsets: Mapping[TopicPartition, int]) -> None:
        """A copy, or an active task that is being restored, has read its changelogs so far."""
        self._sums.restoring(task, next_offsets)

    def dormant(self, task: TaskId, next_offsets: Mapping[TopicPartition, int]) -> None:
        """State of a task that is not assigned lies here, closed. Only between ``try_clean`` and ``end_clean`` may it go."""
        self._sums.dormant(task, next_offsets)

    def forget(self, task: TaskId) -> None:
        """There is no state of this task any more."""
        self._sums.forget(task)

    def try_clean(self) -> bool:
        """Before dormant state is deleted: False while a rebalance counts on it (KIP-441's mutex). Then ``end_clean``."""
        return self._mutex.try_clean()

    def end_clean(self) -> None:
        """Deleting is over, and what was deleted is forgotten."""
        self._mutex.end_clean()

    # --- the group ---------------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_s: float = 5.0) -> None:
        """Commit next input offsets under this generation. Raises ``CommitDeferred``, ``CommitRefused``, ``BrokerError``.

        Without partition times: a Java member that goes on from here takes its time from the next record.
        """
        self._membership.commit(offsets, timeout_s, {})

    def group_metadata(self) -> bytes:
        """For ``Producer.send_offsets_to_transaction`` of a confluent-kafka producer of your own, in this generation.

        Raises ``CommitDeferred`` and ``CommitRefused`` as ``commit``. ``processing_guarantee`` has to be ``exactly_once_v2``, so that
        ``committed`` waits for open transactions.
        """
        return group_metadata(self._config.application_id, self._membership.member())

    def committed(self, partitions: Sequence[TopicPartition], timeout_s: float = 5.0) -> Mapping[TopicPartition, int]:
        """Committed offsets; partitions that have none are left out. Raises ``BrokerError``."""
        return self._committed.read(partitions, timeout_s)

    def lease_left_s(self) -> float:
        """How long this member may still write: the last answered heartbeat plus the session timeout, less now."""
        return self._membership.lease_left_s()

    def changelogs(self, task: TaskId) -> Mapping[str, TopicPartition]:
        """Store -> changelog partition of a task."""
        return self._shape.changelogs(self._config.application_id, task)

    def rejoin(self, reason: str) -> None:
        """Ask for a rebalance; kept if it cannot be asked for at this moment."""
        self._membership.rejoin(reason)

    def drain(self) -> None:
        """Ask the group to warm this member's tasks up elsewhere and to take them; ``Drained`` follows."""
        self._membership.drain()

    def shut_application_down(self) -> None:
        """Ask every member of the group to end (Kafka: ``SHUTDOWN_APPLICATION``).

        In each of them, and here, ``poll`` brings an ``Assignment`` without tasks and, after its ``let_go``, raises
        ``ShutdownRequested``. Raises ``ConfigError`` with ``user_data = "kip441"``.
        """
        self._config.refuse_unless_apache("shut_application_down")
        self._membership.shut_application_down()

    # --- what the membership asks; on its threads ------------------------------------------

    def commit_now(self) -> None:
        self._events.put(CommitDue())

    def adopt(self, generation: int, adopted: Adopted) -> None:
        gone = self._active - adopted.active.keys()
        self._active = frozenset(adopted.active)
        self._events.put(Assignment(generation, adopted.active, adopted.standby, adopted.warmup, gone))

    @property
    def turned_ms(self) -> None:
        """The program's loop is not watched: only an event that it does not answer holds up a rebalance, and for that the brokers wait no longer."""

    def drop_all(self, reason: str) -> None:
        self._active = frozenset()
        self._events.put(Lost(reason))

    def _guarded(self, work: Callable[[], None]) -> None:
        """What ends a thread comes out of ``poll``; it is kept, not handled, here."""
        try:
            work()
        except BaseException as failure:  # noqa: BLE001  # raised again by poll()
            self._failure = failure
            self._events.put(None)
