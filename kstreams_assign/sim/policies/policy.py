"""What a policy may change: who decides, how a member joins and works on, and settings. All else stays as it is.

A policy is one small module beside this one. What lives here: the values they are made of, and what several of them need to place
tasks. What must not: any one policy.
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
    """``taken`` says in a sentence what was taken from where.

    ``assign``: an assignor of its own, told whether the wait that the last assignment announced is over; None: the one that
    ``settings`` names. ``membership`` and ``loop`` are the member's two halves, ours or changed. ``settings`` go over a scenario's.
    """

    name: str
    title: str
    taken: str
    assign: Callable[[bool], Assignor] | None = None
    membership: type[Membership] = Membership
    loop: type[Loop] = Loop
    settings: Mapping[str, object] = field(default_factory=dict)

    def applied(self, scenario: Scenario) -> Scenario:
        """The scenario with this policy's settings. What decides goes by the policy's name on the wire."""
        own = {} if self.assign is None else {"assignor": self.name, "early_probing": False}
        return replace(scenario, **{**own, **self.settings})  # type: ignore[arg-type]


UNCHANGED = Policy("unchanged", "as it is", "nothing: the scenario's own assignor and settings, and our member")


def always(assignor: Assignor) -> Callable[[bool], Assignor]:
    """For a policy that waits for nothing."""
    return lambda _over: assignor


def laid(plan: Plan, owners: Owners, bootstrapping: Owners, *, probing: bool) -> Plan:
    """``plan`` with other owners, and with a warm-up for each task that ``bootstrapping`` gives to a process.

    Standbys stay as planned, but for those that stand where the task now runs or warms up; tasks without an owner run nowhere.
    """
    placements = {}
    for process, placed in plan.placements.items():
        active = frozenset(task for task, owner in owners.items() if owner == process)
        warmup = frozenset(task for task, to in bootstrapping.items() if to == process) - active
        placements[process] = Placement(active, placed.standby - active - warmup, warmup)
    return Plan(placements, probing)


def kept(cluster: Cluster) -> dict[TaskId, UUID]:
    """What runs somewhere stays there; what does not is left out."""
    return {task: process for task, process in previous_owners(cluster).items() if task in cluster.tasks}


def promoted(cluster: Cluster, owners: Owners) -> dict[TaskId, UUID]:
    """Tasks without an owner go to the process with the most complete copy; of equals to the least loaded."""
    load = Counter(owners.values())
    found = dict(owners)
    for task in sorted(cluster.stateful - owners.keys()):
        held = [one for one in cluster.clients if task in one.prev_standby]
        if held:
            best = min(held, key=lambda one: (one.lags[task], load[one.process_id], one.process_id.int))
            found[task] = best.process_id
            load[best.process_id] += 1
    return found


def given_away(cluster: Cluster, owners: Owners, among: Iterable[UUID] = ()) -> dict[TaskId, UUID]:
    """Tasks without an owner go to the process with the fewest (``among`` these, if any are named)."""
    load = Counter(owners.values())
    found = dict(owners)
    processes = list(among) or list(cluster.capacities)
    for task in sorted(cluster.tasks - owners.keys()):
        found[task] = min(processes, key=lambda process: (load[process], process.int))
        load[found[task]] += 1
    return found


def with_standbys(cluster: Cluster, owners: Owners, copies: int) -> Plan:
    """A plan from owners alone, without a probe: standbys stay where state is, most complete first; what is missing goes to the least loaded."""
    load = dict.fromkeys(cluster.capacities, 0)
    for owner in owners.values():
        load[owner] += 1
    standby: dict[UUID, set[TaskId]] = {process: set() for process in load}
    for task in sorted(cluster.stateful & owners.keys()):
        held = {one.process_id: one.lags[task] for one in cluster.clients if task in one.prev_standby | one.prev_active}
        others = [process for process in load if process != owners[task]]
        others.sort(key=lambda process: (process not in held, held.get(process, 0), load[process], process.int))
        for process in others[:copies]:
            standby[process].add(task)
            load[process] += 1
    running = {process: frozenset(t for t, owner in owners.items() if owner == process) for process in load}
    return Plan({process: Placement(running[process], frozenset(standby[process])) for process in load}, probing=False)
