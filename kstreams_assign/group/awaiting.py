"""Who is awaited, and for how long: from all members' trailers to one decision, and from that to the next trailers.

1. A process that restarts joins once more and announces it (``MemberTrailer.restarting``).
2. The leader enters it in every member's assignment: what it runs, and how long its tasks may wait
   (``GroupTrailer.awaited``). Tasks that the others restore soon are entered as replicas that it keeps, so they do not
   wait, and come back to it. The process finds itself there, closes its tasks and leaves. The others join again at
   once, as for a follow-up: that rebalance ends when the process has left, and no heartbeat has to say so first. (Once
   only: a process that stays after all would be asked to join again and again.) If it leads, the others may not have
   the assignment yet, so it stays until one of them joins again, for a second at most.
3. Each member reports at its next join whom its last assignment awaits, and how much time is left. So any member can
   lead, also one that has just started.
4. The wait ends when the process is back, or when its time is over: the leader asks for a rebalance then.

Times are durations, because clocks of machines differ. Each member counts down by its own clock from its assignment,
and the leader from its decision, for the assignment may be long on its way. The shortest time counts, so a slow member
does not prolong a wait. A report is as old as its join, and a rebalance may wait long for a member that has died, so
the leader counts its own report down to its decision. A leader that has just joined has none: it counts the others'
down by the time since its own join, though some may have joined later, for a wait may be shorter than announced, and
not longer. A process is awaited only if *every* member with an assignment of the newest generation reports it: one that
missed a generation may not know of the wait, or not that the process came back and left for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field, replace
from uuid import UUID

from kstreams_assign.assign import (
    Assignor,
    Client,
    Cluster,
    Plan,
    await_assignor,
    common_rack,
    give_back,
    is_caught_up,
)
from kstreams_assign.assign.java_order import sorted_tasks, task_order
from kstreams_assign.frozen import dataclass
from kstreams_assign.group.view import GroupView
from kstreams_assign.model import TaskId, process_order
from kstreams_assign.wire import AwaitedProcess

WORTH_WAITING_S = 10.0
"""A process that restarts is away for ten seconds and more: what others restore in less time does not wait."""


@dataclass(frozen=True, slots=True)
class Restarts:
    """The restarts that a decision has to consider.

    ``away``: awaited processes that are not in the group. ``back``: what each process ran that is in the group again.
    ``leaving``: how long each process that announces its restart in this generation may be awaited; for the rest of an
    earlier time, if those that knew of its return in between are gone. ``announced``: those of them that no earlier
    generation awaits.
    """

    away: Mapping[UUID, AwaitedProcess] = field(default_factory=dict)
    back: Mapping[UUID, frozenset[TaskId]] = field(default_factory=dict)
    leaving: Mapping[UUID, int] = field(default_factory=dict)
    announced: frozenset[UUID] = frozenset()

    @property
    def clients(self) -> tuple[Client, ...]:
        """The absent processes as an assignor sees processes, in order."""
        return tuple(
            Client(
                process,
                self.away[process].threads,
                frozenset(self.away[process].active),
                frozenset(self.away[process].standby),
                tags=self.away[process].tags,
                rack=self.away[process].rack,
            )
            for process in sorted(self.away, key=process_order)
        )

    def prepare(self, cluster: Cluster, acceptable_recovery_lag: int) -> Cluster:
        """Return the cluster in which processes that are back own their tasks again."""
        return give_back(cluster, self.back, acceptable_recovery_lag) if self.back else cluster

    def wrap(self, assign: Assignor) -> Assignor:
        """Return the assignor that lets tasks wait for the absent processes."""
        return await_assignor(assign, self.clients) if self.away else assign


NO_RESTARTS = Restarts()


def read_restarts(
    view: GroupView, max_delay_ms: int, leader: UUID | None = None, leader_joined_ago_ms: int = 0
) -> Restarts:
    """Return the restarts that these members report. A Java member knows of no waiting, so there are none with one.

    ``leader_joined_ago_ms``: how long ago the leader has joined, in milliseconds: its own report is as old.
    """
    if view.foreign:
        return NO_RESTARTS
    agreed = _agreed([awaited for _, awaited in view.reports_of_awaited])
    by_the_leader = _agreed([awaited for process, awaited in view.reports_of_awaited if process == leader])
    now = count_down(by_the_leader or agreed, leader_joined_ago_ms)
    left_ms = {p: min(each.left_ms, now[p].left_ms, max_delay_ms) for p, each in agreed.items() if p in now}
    awaited = {process: replace(agreed[process], left_ms=left) for process, left in left_ms.items() if left > 0}
    leaving = {
        process: awaited[process].left_ms if process in awaited else max_delay_ms
        for process in view.restarting
        if max_delay_ms and len(view.processes) > 1  # or nothing would remember it
    }
    back = {
        process: frozenset(each.active)
        for process, each in awaited.items()
        if process in view.processes and process not in view.restarting
    }
    away = {process: each for process, each in awaited.items() if process not in view.processes}
    return Restarts(away, back, leaving, frozenset(leaving.keys() - awaited.keys()))


def _agreed(reports: Sequence[Mapping[UUID, AwaitedProcess]]) -> dict[UUID, AwaitedProcess]:
    """Return what all these reports contain, with the least time left."""
    if not reports:
        return {}
    return {
        process: _least([report[process] for report in reports])
        for process in reports[0]
        if all(process in report for report in reports)
    }


def _least(reported: Iterable[AwaitedProcess]) -> AwaitedProcess:
    """Return the report with the least time left; of its tasks, those that the other reports contain as well."""
    first, *others = sorted(reported, key=_report_order)
    different = [other for other in others if (other.active, other.standby) != (first.active, first.standby)]
    if not different:
        return first
    active = frozenset(first.active).intersection(*(other.active for other in different))
    standby = frozenset(first.standby).intersection(*(other.standby for other in different))
    return replace(first, active=tuple(sorted_tasks(active)), standby=tuple(sorted_tasks(standby)))


def _report_order(report: AwaitedProcess) -> tuple[int, list[tuple[bytes, int, int]], list[tuple[bytes, int, int]]]:
    """Return the sort key of a report. A damaged report may mix tasks with and without a named topology."""
    return report.left_ms, list(map(task_order, report.active)), list(map(task_order, report.standby))


@dataclass(frozen=True, slots=True)
class SoonRestored:
    """Which tasks of a process are restored so soon elsewhere that they do not wait for its restart.

    ``restored_per_s``: records a second of one process. Where that is not known, tasks wait.
    """

    acceptable_recovery_lag: int
    restored_per_s: float | None = None

    def tasks(self, ran: AbstractSet[TaskId], others: Sequence[Client]) -> frozenset[TaskId]:
        """Return all tasks that lack a caught-up replica, if the others restore them in ``WORTH_WAITING_S``."""
        if not others or not self.restored_per_s:
            return frozenset()
        least = {task: min(client.lags[task] for client in others) for task in ran}
        lags = {task: lag for task, lag in least.items() if not is_caught_up(lag, self.acceptable_recovery_lag)}
        if not lags or min(lags.values()) < 0:  # one is not known
            return frozenset()
        records = max(*lags.values(), sum(lags.values()) / len(others))
        return frozenset(lags) if records < WORTH_WAITING_S * self.restored_per_s else frozenset()


def enter_awaited(
    view: GroupView, restarts: Restarts, cluster: Cluster, plan: Plan, soon: SoonRestored
) -> dict[UUID, AwaitedProcess]:
    """Return whom the group awaits from now on: the absent processes, and those that announce their restart.

    Of the latter, what each runs and goes on running by ``plan``, and the replicas that it keeps by it. A task that it
    runs in the place of another awaited process is a replica, and so is one that is restored soon elsewhere: it does
    not wait, and comes back once the process is back.
    """
    awaited = dict(restarts.away)
    borrowed = frozenset(task for each in restarts.away.values() for task in each.active)
    clients = {client.process_id: client for client in cluster.clients}
    others = [client for client in cluster.clients if client.process_id not in restarts.leaving]
    for process in sorted(restarts.leaving, key=process_order):
        client, placed, consumers = clients[process], plan.placements[process], view.processes[process]
        ran = placed.active & client.prev_active
        elsewhere = ran & borrowed | soon.tasks((ran - borrowed) & cluster.stateful, others)
        kept = (placed.standby | placed.warmup) & client.prev_standby | elsewhere & cluster.stateful
        awaited[process] = AwaitedProcess(
            left_ms=restarts.leaving[process],
            active=tuple(sorted(ran - elsewhere)),
            standby=tuple(sorted(kept)),
            threads=len(consumers),
            tags=dict(consumers[0].info.client_tags),
            rack=common_rack(consumer.member.rack for consumer in consumers),
        )
    return awaited


def wait_ends_in_ms(awaited: Mapping[UUID, AwaitedProcess]) -> int | None:
    """Return the milliseconds until the first wait ends; None if no process is awaited."""
    return min((each.left_ms for each in awaited.values()), default=None)


def count_down(awaited: Mapping[UUID, AwaitedProcess], passed_ms: int) -> dict[UUID, AwaitedProcess]:
    """Return the processes that are still awaited after this time. A clock that was set back counts as no time."""
    passed_ms = max(0, passed_ms)
    return {
        process: replace(each, left_ms=each.left_ms - passed_ms)
        for process, each in awaited.items()
        if each.left_ms > passed_ms
    }
