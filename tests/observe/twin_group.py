"""The slow twin of a simulated group: every generation goes through real bytes, on a disk of its own.

Members write subscriptions, the leader reads them and writes assignments, each member reads its own. Between two
probing rebalances all replicas get to their ends.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from kstreams_assign.group.adoption import read_assignment
from kstreams_assign.group.dialects import APACHE
from kstreams_assign.group.leader import DecisionInput, decide, lookups
from kstreams_assign.group.values import Adopted, Decision, JoinedMember
from kstreams_assign.group.view import read_group
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId
from kstreams_assign.observe.group_state import GroupState


class TwinGroup:
    """Starts from ``state``, right before a rebalance. Without early probing."""

    def __init__(self, state: GroupState) -> None:
        self.state = state
        self.now_ms = 0
        self.process_of = {c.member_id: name for name, process in state.processes.items() for c in process.consumers}
        self.active = {c.member_id: set(c.active) for process in state.processes.values() for c in process.consumers}
        self.copies = {c.member_id: set(c.copies) for process in state.processes.values() for c in process.consumers}
        self.disk: dict[UUID, dict[TaskId, int]] = {name: dict(p.positions) for name, p in state.processes.items()}
        self.left: dict[tuple[UUID, TaskId], int] = {
            (name, task): 0 for name in self.disk for task in self.disk[name].keys() - self.held(name)
        }
        self.promised = dict(state.promised)

    def held(self, process: UUID) -> set[TaskId]:
        mine = [member for member, name in self.process_of.items() if name == process]
        return {task for member in mine for task in self.active[member] | self.copies[member]}

    def joins(self, member: str) -> JoinedMember:
        process = self.process_of[member]
        disk, topology = self.disk[process], self.state.topology
        reported = {task: at for task, at in disk.items() if task in self.active[member] | self.copies[member]}
        reported = {
            t: RUNNING_OFFSET_SUM if t in self.active[member] and at >= self.end(t) else at
            for t, at in reported.items()
        }
        if member == self.state.processes[process].consumers[0].member_id:
            reported |= {task: at for task, at in disk.items() if task not in self.held(process)}
        report = replace(self.state.processes[process].about, task_offset_sums=dict(sorted(reported.items())))
        tasks = topology.tasks(self.state.partition_counts)
        owned = tuple(sorted(partition for task in self.active[member] for partition in tasks[task]))
        return JoinedMember(member, topology.source_topics, owned, APACHE.write_report(report))

    def end(self, task: TaskId) -> int:
        return self.state.ends[task]

    def rebalance(self) -> Decision:
        state = self.state
        for (process, task), since in list(self.left.items()):
            if self.now_ms - since > state.state_cleanup_delay_ms:
                del self.left[process, task], self.disk[process][task]
        wanted = lookups(state.topology, state.application_id, state.partition_counts).end_offsets
        ends = dict.fromkeys(wanted, 0)
        for task, end in state.ends.items():
            first = next(iter(state.topology.changelogs(state.application_id, task).values()))
            ends[first] = end
        decision = decide(
            read_group([self.joins(member) for member in self.process_of]),
            DecisionInput(
                application_id=state.application_id,
                topology=state.topology,
                assignor=state.assignor,
                config=state.config,
                leader=state.leader,
                partition_counts=state.partition_counts,
                end_offsets=ends,
                now_ms=self.now_ms,
                promised=self.promised,
                warmup_queue=state.warmup_queue,
            ),
        )
        adopted = {member: self.reads(member, decision) for member in self.process_of}
        self.promised = dict(adopted[min(m for m, p in self.process_of.items() if p == state.leader)].promised)
        for member, given in adopted.items():
            self.active[member], self.copies[member] = set(given.active), set(given.standby | given.warmup)
        for process, disk in self.disk.items():
            held = self.held(process) & state.ends.keys()
            self.left |= {
                (process, task): self.now_ms for task in disk.keys() - held if (process, task) not in self.left
            }
            for task in held:
                disk.setdefault(task, 0)
                self.left.pop((process, task), None)
        return decision

    def reads(self, member: str, decision: Decision) -> Adopted:
        answer = decision.assignments[member]
        process = self.process_of[member]
        return read_assignment(answer.partitions, answer.user_data, self.state.topology, process)

    def catch_up(self) -> None:
        for process, disk in self.disk.items():
            for task in self.held(process) & self.state.ends.keys():
                disk[task] = self.end(task)

    def settle(self) -> list[Decision]:
        """Rebalance after a change until no member asks for another rebalance."""
        decisions = [self.rebalance()]
        while decisions[-1].withheld or decisions[-1].next_probe_ms is not None:
            if not decisions[-1].withheld:
                self.catch_up()
                self.now_ms = decisions[-1].next_probe_ms or 0
            decisions.append(self.rebalance())
        return decisions
