"""``World``: all parts of a simulation: time, brokers, processes, faults and checkers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from kstreams_assign.assign.java.streams_sticky import SubtopologyTasks
from kstreams_assign.group.assignor_choice import known_assignors
from kstreams_assign.group.leader import DecisionInput, settings_digest
from kstreams_assign.group.values import Decision, JoinedMember
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sim.broker import Logs, Network
from kstreams_assign.sim.chance import Chance
from kstreams_assign.sim.checkers.checker import Watch
from kstreams_assign.sim.committing import Share
from kstreams_assign.sim.coordinator import Coordinator
from kstreams_assign.sim.disk import DISK_FAULTS, Disk
from kstreams_assign.sim.faults import NO_FAULTS, Fault, Faults
from kstreams_assign.sim.member import Group
from kstreams_assign.sim.outputs import Outputs
from kstreams_assign.sim.policies.policy import UNCHANGED, Policy
from kstreams_assign.sim.process import Process
from kstreams_assign.sim.scenario import APPLICATION, Scenario
from kstreams_assign.sim.streams_coordinator import StreamsCoordinator
from kstreams_assign.sim.timeline import START_MS, Timeline
from kstreams_assign.sim.transactions import Transactions
from kstreams_assign.wire import MemberTrailer


class World:
    """``lines``: the log; None: no log. ``trailer``: the same for each member."""

    def __init__(
        self,
        scenario: Scenario,
        faults: Faults,
        seed: int,
        watch: Watch,
        lines: list[str] | None,
        policy: Policy = UNCHANGED,
    ) -> None:
        self.scenario = scenario
        self.policy = policy
        self.faults = faults
        self.rng = Chance(f"{seed}-world")
        self.watch = watch
        self.lines = lines
        self.shape, self.config = scenario.shape, scenario.config
        self.partition_counts = scenario.partition_counts
        digest = settings_digest(scenario.assignor, self.config)
        self.trailer = MemberTrailer(
            assignors=known_assignors(),
            settings_digest=digest,
            exactly_once=scenario.exactly_once,
            balance_by=self.config.balance_by,
        )
        self.inputs = self.shape.tasks(self.partition_counts)
        self._loads = dict(zip(sorted(self.inputs), scenario.loads, strict=False))
        self._noise = Chance(f"{seed}-loads")
        self.changelogs = {task: self.shape.changelogs(APPLICATION, task) for task in self.inputs}
        self.timeline = Timeline()
        self.logs = Logs(scenario)
        self.network = Network(self.timeline, faults, self.rng)
        self.coordinator = Coordinator(
            self.timeline, scenario.session_timeout_ms, scenario.rebalance_timeout_ms, self.accepted
        )
        self.streams = self._streams_coordinator()
        self.group: Group = self.streams if scenario.is_streams_group else self.coordinator
        self.transactions = Transactions(self)
        self.channel: dict[int, dict[UUID, Mapping[TaskId, int]]] = {}
        self.places: dict[int, Process | None] = dict.fromkeys(range(scenario.processes))
        self._disks: dict[int, Disk] = {}
        self._disk_count = 0
        self._starts = 0
        self.healed = False
        watch.connect(self)

    def measure_loads(self, tasks: Iterable[TaskId]) -> dict[TaskId, int]:
        """Return the loads of tasks as a process measures them, each with noise of 4 %."""
        return {t: round(self._loads[t] * self._noise.uniform(0.96, 1.04)) for t in tasks if t in self._loads}

    def _streams_coordinator(self) -> StreamsCoordinator:
        counts = dict.fromkeys(range(len(self.shape.subtopologies)), 0)
        for task in self.inputs:
            counts[task.subtopology] += 1
        return StreamsCoordinator(
            self.timeline,
            self.scenario.session_timeout_ms,
            self.scenario.heartbeat_interval_ms,
            {
                number: SubtopologyTasks(counts[number], bool(sub.stores))
                for number, sub in enumerate(self.shape.subtopologies)
            },
            self.scenario.standbys,
            {partition: task for task, partitions in self.inputs.items() for partition in partitions},
            self.accepted,
            self.watch.answered,
            self.watch.removed,
        )

    @property
    def processes(self) -> list[Process]:
        return [process for process in self.places.values() if process is not None]

    # --- processes come, suffer and go -------------------------------------------------------

    def start(self, slot: int) -> None:
        """Start a process in this place, unless one runs there."""
        if self.places[slot] is None:
            disk = self._disks.get(slot) or self._new_disk(slot)
            self._starts += 1
            process = self.places[slot] = Process(self, slot, disk, self._starts)
            self.log("starts", process, "")
            process.start()

    def _new_disk(self, slot: int) -> Disk:
        self._disk_count += 1
        disk = self._disks[slot] = Disk(UUID(int=(slot + 1) * 1_000 + self._disk_count))
        return disk

    def ended(self, process: Process) -> None:
        self.watch.lost(process)
        if self.places[process.slot] is process:
            self.places[process.slot] = None

    def inflict(self, fault: Fault) -> None:
        """Begin a fault and schedule its end."""
        if self.healed:
            return
        if fault.kind == "move_coordinator":
            self.log("fault", None, fault)
            self.group.move(fault.lasts_ms)
            self.watch.moved()
        elif (process := self.places[fault.slot]) is not None:
            self.log("fault", process, fault)
            self._inflict(fault, process)

    def _inflict(self, fault: Fault, process: Process) -> None:  # noqa: C901  # a case for each kind
        if fault.kind in ("kill", "wreck"):
            process.end()
            if fault.kind == "wreck":
                del self._disks[fault.slot]
        elif fault.kind in ("leave", "fail"):
            process.leave(failed=fault.kind == "fail")
        elif fault.kind == "drain":
            process.drain(lambda: self.timeline.after(fault.lasts_ms, self.start, fault.slot))
        elif fault.kind == "restart":
            process.restart(lambda: self.timeline.after(fault.lasts_ms, self.start, fault.slot))
        elif fault.kind == "pause":
            process.run.sleep()
            self.timeline.after(fault.lasts_ms, process.run.wake)
        elif fault.kind == "cut_off":
            process.run.cut_off = True
            self.timeline.after(fault.lasts_ms, _join_wire, process)
        elif fault.kind == "unreadable":
            process.loop.break_stores()
        elif fault.kind in DISK_FAULTS:
            DISK_FAULTS[fault.kind](process.disk)
            self.timeline.after(fault.lasts_ms, process.disk.mend)
        if fault.kind in ("kill", "wreck", "leave", "fail"):
            self.timeline.after(fault.lasts_ms, self.start, fault.slot)

    def heal(self) -> None:
        """End all faults and the input; start all processes again."""
        self.healed = True
        self.network.faults = self.faults = NO_FAULTS
        self.logs.stopped_ms = self.timeline.now_ms
        self.group.be_back()
        for disk in self._disks.values():
            disk.mend()
        for process in self.processes:
            _join_wire(process)
            process.run.wake()
        self.revive()

    def revive(self) -> None:
        """Start a process in each empty place."""
        for slot in self.places:
            self.start(slot)

    # --- chance ---------------------------------------------------------------------------------

    def lookup_fails(self) -> bool:
        return self.rng.random() < self.faults.failed_lookup

    def cleaner_takes_ms(self) -> int:
        return self._takes_ms(self.faults.slow_cleaner, 20, 5_000)

    def commit_takes_ms(self) -> int:
        return self._takes_ms(self.faults.slow_commit, 20, 4_000)

    def write_takes_ms(self, disk: Disk) -> int:
        """Draw the time that the writes of a commit to the stores take."""
        return self.rng.randint(0, 4_000) if disk.slow else 0

    def marker_takes_ms(self) -> int:
        """Draw the time from a transaction's end to its marker in one partition."""
        return self._takes_ms(self.faults.slow_commit, 20, 15_000)

    def _takes_ms(self, slow: float, usual_ms: int, slow_ms: int) -> int:
        return self.rng.randint(0, slow_ms if slow and self.rng.random() < slow else usual_ms)

    # --- what reaches the logs ---------------------------------------------------------------------

    def append(self, process: Process, shares: Sequence[Share]) -> dict[TaskId, int]:
        """Append results at least once; return where they end in their changelogs."""
        ends: dict[TaskId, int] = {}
        for share in shares:
            if share.task in self.logs.ends:
                self.watch.appended(process, share.task, self.logs.works[share.task], share.work)
                self.logs.append(share.task, share.records, share.work)
                self.logs.firm[share.task] = ends[share.task] = self.logs.ends[share.task]
        return ends

    def send_outputs(self, process: Process, outputs: Iterable[Outputs]) -> None:
        """Append outputs at least once."""
        for each in outputs:
            self.watch.sent(process, each)

    def transacted(self, process: Process, shares: Sequence[Share], ends: Mapping[TaskId, int]) -> None:
        """Count the results of a transaction that is committed; they are in the changelogs already, up to ``ends``."""
        self.watch.transacted(process, shares)
        for share in shares:
            if share.task in self.logs.ends:
                self.watch.appended(process, share.task, self.logs.works[share.task], share.work)
                self.logs.works[share.task] = share.work
                self.logs.firm[share.task] = max(self.logs.firm[share.task], ends[share.task])

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int] | None:
        """Return committed offsets; None while a transaction is about to commit some (KIP-447): ask again."""
        if not self.transactions.are_stable(partitions):
            return None
        return {partition: self.logs.committed.get(partition, 0) for partition in partitions}

    def changelog_position(self, task: TaskId, at: int | None = None) -> dict[TopicPartition, int]:
        """Return ``at``, or the end of the task's changelog, in the form of a store's offsets."""
        return dict.fromkeys(self.changelogs[task].values(), self.logs.ends[task] if at is None else at)

    def accepted(self, member: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Take committed offsets."""
        self.watch.accepted(member, offsets)
        self.logs.committed.update(offsets)

    def decided(
        self, process: Process, members: Sequence[JoinedMember], question: DecisionInput, decision: Decision
    ) -> None:
        self.log("decides", process, decision)
        self.watch.decided(process, members, question, decision)

    # --- for people ------------------------------------------------------------------------------------

    def log(self, what: str, process: Process | None, detail: object) -> None:
        if self.lines is not None:
            from kstreams_assign.sim.log_lines import log_line

            ms = self.timeline.now_ms - START_MS
            self.lines.append(log_line(ms, what, process, detail))


def _join_wire(process: Process) -> None:
    process.run.cut_off = False
