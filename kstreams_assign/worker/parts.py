"""The parts of a worker that its status is built from. Each answers with its own view at that moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from kstreams_assign.adapters.clock import monotonic_ms, wall_ms
from kstreams_assign.config import Config
from kstreams_assign.model import TopologyShape
from kstreams_assign.status.build import status_of
from kstreams_assign.status.values import Status
from kstreams_assign.status.views import Meters, Views
from kstreams_assign.worker.early import EarlyProbing
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.keeping_tables import KeptTables
from kstreams_assign.worker.labour import Labour
from kstreams_assign.worker.memberships import AnyMember
from kstreams_assign.worker.processing import Processor
from kstreams_assign.worker.restoring import RestoreThread
from kstreams_assign.worker.state_sizes import StateSizes
from kstreams_assign.worker.waiting import WaitingTasks


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts. None of them blocks to answer, so any thread may call ``status``."""

    config: Config
    shape: TopologyShape
    process: UUID
    membership: AnyMember
    early: EarlyProbing
    processor: Processor
    restoring: RestoreThread
    waiting: WaitingTasks
    sizes: StateSizes
    labour: Labour
    tables: KeptTables
    log: EventLog
    closing: Callable[[], bool]
    failure: Callable[[], BaseException | None]

    def status(self) -> Status:
        """Build the status of this moment."""
        failure, meters = self.failure(), self._meters()
        views = Views(
            member=self.membership.view(),
            early=self.early.view(),
            roles=self.membership.roles(),
            states=self.processor.states(),
            progress=self.restoring.progress(),
            queued=self.restoring.queued,
            warnings=self.log.warnings(),
            records_total=self.processor.feeding.records_total,
            records_out_total=sum(meters.records_produced.values()),
            commits_total=self.processor.commits.done_total,
            input_lags={partition: at.lag for partition, at in self.processor.input_meter.progress.items()},
            paused=self.processor.paused,
            turned_ms=self.processor.turned_ms if self.tables.ready else monotonic_ms(),
            closing=self.closing(),
            failure=None if failure is None else f"{type(failure).__name__}: {failure}",
            now_ms=wall_ms(),
            monotonic_ms=monotonic_ms(),
            stopped=self.restoring.stopped(),
            waits=self.waiting.waiting(),
            transactions_aborted_total=self.processor.commits.aborted_total,
            meters=meters,
            global_tables=self.tables.view(),
        )
        return status_of(self.config, self.shape, self.process, views)

    def _meters(self) -> Meters:
        commits = self.processor.commits
        return Meters(
            rebalances=self.membership.rebalances.view,
            commits=commits.durations,
            commit_failures_total=commits.failed_total,
            records_consumed=self.processor.feeding.records_consumed.view(),
            records_produced=commits.records_produced(),
            records_dropped=self.labour.bad_records.dropped(),
            dead_letters=commits.dead_letters(),
            punctuated_total=self.labour.punctuated_total,
            timers_fired=commits.timers_fired(),
            entries_expired=commits.entries_expired(),
            restored=self.restoring.restored.view(),
            updated=self.restoring.updated.view(),
            state_bytes=self.sizes.bytes_by_task,
        )
