"""What a policy may change: the assignor, how a member joins and processes, and settings. The rest stays the same.

Each policy is a small module beside this one. The values that policies are made of live here, and functions that
several of them need to place tasks. A single policy's rules do not belong here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from kstreams_assign.assign import Assignor, Cluster, Placement, Plan, previous_owners
from kstreams_assign.model import TaskId
from kstreams_assign.sim.loop import Loop
from kstreams_assign.sim.membership import Membership
from kstreams_assign.sim.scenario import Scenario

Owners = Mapping[TaskId, UUID]


@dataclass(frozen=True, slots=True)
class Policy:
    """``taken``: its rules, in a sentence for users.

    ``assign``: returns its assignor, given whether the announced wait is over; None: the assignor that ``settings``
    names. ``membership`` and ``loop``: the member's two halves, ours or changed. ``settings`` override a scenario's.
    ``awaits_restarts``: a process that restarts announces it; otherwise it only leaves.
    """

    name: str
    title: str
    taken: str
    assign: Callable[[bool], Assignor] | None = None
    membership: type[Membership] = Membership
    loop: type[Loop] = Loop
    settings: Mapping[str, object] = field(default_factory=dict)
    awaits_restarts: bool = False

    def applied(self, scenario: Scenario) -> Scenario:
        """Return the scenario with this policy's settings. Its assignor has the policy's name on the wire."""
        own = {} if self.assign is None else {"assignor": self.name, "early_probing": False}
        return replace(scenario, **{**own, **self.settings})  # type: ignore[arg-type]


UNCHANGED = Policy(
    "unchanged",
    "unchanged",
    "nothing: the scenario's own assignor and settings, and our member",
    awaits_restarts=True,
)


def always(assignor: Assignor) -> Callable[[bool], Assignor]:
    """Return ``assign`` for a policy without a wait."""
    return lambda _over: assignor


def arrange(plan: Plan, owners: Owners, bootstrapping: Owners, *, probing: bool) -> Plan:
    """Return ``plan`` with other owners, and with a warm-up for each task of ``bootstrapping``.

    Standbys stay as planned, except where the task now runs or warms up. Tasks without an owner run nowhere.
    """
    placements = {}
    for process, placed in plan.placements.items():
        active = frozenset(task for task, owner in owners.items() if owner == process)
        warmup = frozenset(task for task, to in bootstrapping.items() if to == process) - active
        placements[process] = Placement(active, placed.standby - active - warmup, warmup)
    return Plan(placements, probing)


def keep_owners(cluster: Cluster) -> dict[TaskId, UUID]:
    """Return the present owners; tasks without one are left out."""
    return {task: process for task, process in previous_owners(cluster).items() if task in cluster.tasks}


def promote_standbys(cluster: Cluster, owners: Owners) -> dict[TaskId, UUID]:
    """Give orphaned tasks to the process with the least lag; of equals, to the least loaded."""
    load = Counter(owners.values())
    assigned = dict(owners)
    for task in sorted(cluster.stateful - owners.keys()):
        held = [client for client in cluster.clients if task in client.prev_standby]
        if held:
            best = min(held, key=lambda client: (client.lags[task], load[client.process_id], client.process_id.int))
            assigned[task] = best.process_id
            load[best.process_id] += 1
    return assigned


def assign_orphans(cluster: Cluster, owners: Owners, among: Iterable[UUID] = ()) -> dict[TaskId, UUID]:
    """Give orphaned tasks to the process with the fewest tasks (``among`` these, if any are named)."""
    load = Counter(owners.values())
    assigned = dict(owners)
    processes = list(among) or list(cluster.capacities)
    for task in sorted(cluster.tasks - owners.keys()):
        assigned[task] = min(processes, key=lambda process: (load[process], process.int))
        load[assigned[task]] += 1
    return assigned


def with_standbys(cluster: Cluster, owners: Owners, copies: int) -> Plan:
    """Return a plan from owners alone, without a probe.

    Standbys stay where state is, least lag first; missing ones go to the least loaded process.
    """
    load = dict.fromkeys(cluster.capacities, 0)
    for owner in owners.values():
        load[owner] += 1
    standby: dict[UUID, set[TaskId]] = {process: set() for process in load}
    for task in sorted(cluster.stateful & owners.keys()):
        held = {
            client.process_id: client.lags[task]
            for client in cluster.clients
            if task in client.prev_standby | client.prev_active
        }
        others = [process for process in load if process != owners[task]]
        others.sort(key=lambda process: (process not in held, held.get(process, 0), load[process], process.int))
        for process in others[:copies]:
            standby[process].add(task)
            load[process] += 1
    running = {process: frozenset(t for t, owner in owners.items() if owner == process) for process in load}
    return Plan({process: Placement(running[process], frozenset(standby[process])) for process in load}, probing=False)
