"""KIP-429: which member may have a task now, and which has to wait until the old owner has released it.

One rule (``StreamsPartitionAssignor.populateActiveTaskAndPartitionsLists``): an input partition that another member
owns, also a member of the same process, is withheld from this assignment. The old owner sees it missing, releases it
and rejoins, and the follow-up assigns it. If the new owner of a withheld task had a replica, it keeps that as a
standby meanwhile, so that its store is not closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from kstreams_assign.assign import Client, Cluster, Plan, ThreadTasks, distribute, sort_by_lag
from kstreams_assign.frozen import dataclass
from kstreams_assign.group.view import Consumer
from kstreams_assign.model import TaskId, TopicPartition


@dataclass(frozen=True, slots=True)
class HandedOut:
    """What each consumer gets now. The follow-up assigns the ``withheld`` tasks."""

    active: Mapping[str, tuple[TaskId, ...]]
    standby: Mapping[str, tuple[TaskId, ...]]
    withheld: Mapping[TaskId, UUID]
    waiting: frozenset[str]


def hand_out(
    processes: Mapping[UUID, Sequence[Consumer]],
    owners: Mapping[TopicPartition, str],
    plan: Plan,
    tasks: Mapping[TaskId, tuple[TopicPartition, ...]],
    cluster: Cluster,
) -> HandedOut:
    """Spread each process's tasks over its consumers and withhold what another member still owns."""
    active: dict[str, tuple[TaskId, ...]] = {}
    standby: dict[str, tuple[TaskId, ...]] = {}
    withheld: dict[TaskId, UUID] = {}
    waiting: set[str] = set()
    clients = {client.process_id: client for client in cluster.clients}
    for process, consumers in processes.items():
        owned = {c.member.member_id: c.member.owned for c in consumers}
        for consumer, share in _spread(clients[process], consumers, plan, cluster).items():
            mine = frozenset(owned[consumer])
            held_back = {t for t in share.active if any(p in owners and p not in mine for p in tasks[t])}
            kept = clients[process].prev_standby & held_back & cluster.stateful
            active[consumer] = tuple(t for t in share.active if t not in held_back)
            standby[consumer] = tuple(sorted({*share.standby, *kept}))
            withheld.update(dict.fromkeys(sorted(held_back), process))
            waiting |= {consumer} if held_back else set()
    return HandedOut(active, standby, withheld, frozenset(waiting))


def _spread(client: Client, consumers: Sequence[Consumer], plan: Plan, cluster: Cluster) -> Mapping[str, ThreadTasks]:
    placement = plan.placements[client.process_id]
    return distribute(
        stateful_active=placement.active & cluster.stateful,
        standby=placement.standby | placement.warmup,
        stateless_active=placement.active - cluster.stateful,
        consumers=[c.member.member_id for c in consumers],
        # only reported tasks that the process gets: sorting 1,000 tasks for each of 1,000 members is slow
        previous={
            c.member.member_id: sort_by_lag(placement.copies.intersection(c.info.reported_tasks), client.lags)
            for c in consumers
        },
    )
