"""KIP-429: who may have a task now, and who has to wait until its old owner let go.

One rule (``StreamsPartitionAssignor.populateActiveTaskAndPartitionsLists``): an input partition that a consumer does not own
while another member does, also one of the same process, is withheld from this assignment; the old owner sees it missing, lets go and
rejoins, and the follow-up gives it out. A withheld task whose new owner held a copy stays there as a standby meanwhile,
so that its store is not closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from kstreams_assign.assign import Client, Cluster, Plan, ThreadTasks, by_lag, distribute
from kstreams_assign.group.view import Consumer
from kstreams_assign.model import TaskId, TopicPartition


@dataclass(frozen=True, slots=True)
class Handed:
    """What each consumer really gets now. ``withheld`` tasks are given out by the follow-up."""

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
) -> Handed:
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
    return Handed(active, standby, withheld, frozenset(waiting))


def _spread(client: Client, consumers: Sequence[Consumer], plan: Plan, cluster: Cluster) -> Mapping[str, ThreadTasks]:
    placement = plan.placements[client.process_id]
    return distribute(
        stateful_active=placement.active & cluster.stateful,
        standby=placement.standby | placement.warmup,
        stateless_active=placement.active - cluster.stateful,
        consumers=[c.member.member_id for c in consumers],
        # of what it reported, only what the process gets: 1,000 members with 1,000 tasks each would all be sorted
        previous={
            c.member.member_id: by_lag(placement.copies.intersection(c.info.reported_tasks), client.lags)
            for c in consumers
        },
    )
