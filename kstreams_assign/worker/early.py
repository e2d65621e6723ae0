"""Early probing's shell: members publish their replicas' progress, and the leader reads it (rules: ``engine.early``).

The channel is a topic of the application (``progress_topic``). A record's key is the process id, its header
``generation`` the generation of the report, and its value the SubscriptionInfo that this process would join with. A
process that may not write or read the topic loses only the early rebalance: the probing interval still holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import assert_never
from uuid import UUID

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.adapters.signals import EndRequest
from kstreams_assign.config import Config
from kstreams_assign.engine import early as engine
from kstreams_assign.errors import KStreamsAssignError, MalformedUserData
from kstreams_assign.events import EarlyProbeEvent, EarlyProbingOffEvent, ProgressUnreadableEvent
from kstreams_assign.group.dialects import APACHE, MemberReport
from kstreams_assign.group.probing import Sums
from kstreams_assign.group.values import Adopted, LeaderState
from kstreams_assign.model import TaskId
from kstreams_assign.restore.progress import TaskProgress
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.status.views import ALL_CHANGELOGS, Copies, EarlyView
from kstreams_assign.tasks.record import Record
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.progress_topic import ProgressTopic, let_outages_pass

TURN_S = 0.5
GENERATION = "generation"

EndOffsetSums = Callable[[Iterable[TaskId]], Mapping[TaskId, int]]


class EarlyProbing:
    """Publishes while a probe is due, listens while this member leads. ``adopted`` may be called from any thread."""

    def __init__(
        self,
        config: Config,
        process: UUID,
        sums: OffsetSums,
        admin: ClusterAdmin,
        end_offset_sums: EndOffsetSums,
        rejoin: Callable[[str], None],
        log: EventLog,
    ) -> None:
        self._config = config
        self._process = process
        self._sums = sums
        self._end_offset_sums = end_offset_sums
        self._rejoin = rejoin
        self._log = log
        self._topic = ProgressTopic(config, admin)
        self._engine = engine.Early(config.early_probing_floor_ms, config.acceptable_recovery_lag)
        self._copies: tuple[int, Copies] = (-1, {})
        """The replicas as of the last look-up of end offsets, with its generation."""
        self._off = _why_off(config)

    def adopted(self, generation: int, adopted: Adopted, standing: LeaderState | None) -> None:
        """An assignment is here. ``standing``: what this member decided, if it leads."""
        sums = self._sums.report(owned_only=True)
        self._engine.handle(engine.Assigned(generation, adopted, standing, sums), monotonic_ms())

    def run(self, stopped: EndRequest) -> None:
        """Run until ``stopped``. If the broker refuses, early probing ends with a warning; retry other errors."""
        if self._off is not None:
            return
        with ExitStack() as clients:
            try:
                while not stopped.wait(TURN_S):
                    self._turn(clients)
            except KStreamsAssignError as cause:
                self._off = str(cause)
                self._log.emit(EarlyProbingOffEvent(warnings=(f"{cause}; the probing interval holds",)))

    def view(self) -> EarlyView:
        """For status, from any thread."""
        current, (generation, copies) = self._engine.generation, self._copies
        if current is None:
            return EarlyView(self._off)
        known = copies if generation == current.number else {}
        return EarlyView(self._off, True, current.gain, current.answer, known, current.alone)

    def _turn(self, clients: ExitStack) -> None:
        if self._engine.generation is not None:
            with let_outages_pass():  # the next turn tries again
                self._handle(engine.Turned(self._sums.report(owned_only=True)), clients)

    def _handle(self, event: engine.Event, clients: ExitStack) -> None:
        """Let the engine decide, and carry out what it says. On this thread alone, as it may wait."""
        for effect in self._engine.handle(event, monotonic_ms()):
            self._carry_out(effect, clients)

    def _carry_out(self, effect: engine.Effect, clients: ExitStack) -> None:
        match effect:
            case engine.Publish(generation, sums):
                self._publish(generation, sums, clients)
                self._handle(engine.Published(generation, sums), clients)
            case engine.Listen(generation):
                self._handle(engine.Heard(generation, self._read(generation, clients)), clients)
            case engine.LookUpEnds(generation, tasks):
                ends = self._end_offset_sums(tasks)
                self._measure_copies(generation, ends)
                self._handle(engine.EndsKnown(generation, ends, self._sums.report(owned_only=True)), clients)
            case engine.AskForRebalance(reason, gain):
                self._log.emit(EarlyProbeEvent(reason=reason, moves=gain.moves, standbys=gain.standbys))
                self._rejoin(reason)
            case _:
                assert_never(effect)

    def _measure_copies(self, generation: int, ends: Mapping[TaskId, int]) -> None:
        current, (known, copies) = self._engine.generation, self._copies
        if current is not None and current.number == generation:
            before = copies if known == generation else {}
            self._copies = (generation, measure_copies(before, current.heard, ends, monotonic_ms()))

    # --- the channel ----------------------------------------------------------------

    def _publish(self, generation: int, sums: Sums, clients: ExitStack) -> None:
        report = MemberReport(APACHE.latest_version, APACHE.latest_version, self._process, task_offset_sums=sums)
        headers: list[tuple[str, bytes | None]] = [(GENERATION, b"%d" % generation)]
        self._topic.publish(str(self._process).encode(), APACHE.write_report(report), headers, clients)

    def _read(self, generation: int, clients: ExitStack) -> dict[UUID, Sums]:
        """Read on, and return the newest report of each process of this generation."""
        reports = [self._report(generation, record) for record in self._topic.read(clients)]
        return {report.process_id: report.task_offset_sums for report in reports if report is not None}

    def _report(self, generation: int, record: Record) -> MemberReport | None:
        headers = dict(record.headers or ())
        if headers.get(GENERATION) != b"%d" % generation or record.value is None:
            return None
        try:
            report = APACHE.read_report(record.value)
        except MalformedUserData as cause:
            self._log.emit(ProgressUnreadableEvent(warnings=(f"{self._topic.partition} at {record.offset}: {cause}",)))
            return None
        return report if isinstance(report, MemberReport) else None


def _why_off(config: Config) -> str | None:
    if config.in_streams_group:
        return 'group_protocol = "streams"'
    return None if config.early_probing else "early_probing = false"


def measure_copies(
    before: Copies, heard: Mapping[UUID, Sums], ends: Mapping[TaskId, int], now_ms: int
) -> dict[tuple[UUID, TaskId], TaskProgress]:
    """Return the positions of the replicas and their speed, from the last reports."""
    return {
        (process, task): _progress(before.get((process, task)), at, ends[task], now_ms)
        for process, sums in heard.items()
        for task, at in sums.items()
        if task in ends
    }


def _progress(before: TaskProgress | None, at: int, end: int, now_ms: int) -> TaskProgress:
    if before is None or at < before.position_sum:  # new, or it started over
        return TaskProgress.begin({ALL_CHANGELOGS: at}, {ALL_CHANGELOGS: end}, now_ms)
    return before.extended({ALL_CHANGELOGS: end}, now_ms).advanced(ALL_CHANGELOGS, at, now_ms)
