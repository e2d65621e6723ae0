"""Racks as the leader knows them (KIP-925): the brokers' answers go into the cluster, missing ones into warnings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from kstreams_assign.assign import AssignConfig, Cluster, why_not_rack_aware
from kstreams_assign.model import TaskId, TopicPartition

ReplicaRacks = Mapping[TopicPartition, frozenset[str]]
"""Partition -> racks of its replicas, without partitions whose racks are unknown."""

Partitions = Mapping[TaskId, Collection[TopicPartition]]


def with_racks(cluster: Cluster, sources: Partitions, changelogs: Partitions, racks: ReplicaRacks) -> Cluster:
    """Return the cluster with the racks of its tasks' partitions."""
    return replace(cluster, source_racks=_known(sources, racks), changelog_racks=_known(changelogs, racks))


def _known(partitions: Partitions, racks: ReplicaRacks) -> dict[TaskId, tuple[frozenset[str], ...]]:
    """Return the tasks for which the racks of all partitions are known."""
    return {t: tuple(racks[p] for p in mine) for t, mine in partitions.items() if all(p in racks for p in mine)}


WITHOUT_RACKS = frozenset({"sticky", "fallback_prior", "learner"})
"""Assignors that do not look at racks."""


def warn_racks_not_followed(cluster: Cluster, config: AssignConfig, assignor: str) -> list[str]:
    """Return a warning if a rack-aware strategy is set but cannot be followed, or the assignor does not follow it."""
    why, wanted = why_not_rack_aware(cluster, config), config.rack_aware_assignment_strategy
    if assignor in WITHOUT_RACKS:
        why = f"assignor {assignor} does not look at racks"
    return [f"rack_aware_assignment_strategy {wanted} is not followed: {why}"] if why and wanted != "none" else []
