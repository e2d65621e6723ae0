"""Racks as the leader knows them (KIP-925): what was asked of the brokers goes into the cluster, and what is missing is said."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from kstreams_assign.assign import AssignConfig, Cluster, why_not_rack_aware
from kstreams_assign.model import TaskId, TopicPartition

ReplicaRacks = Mapping[TopicPartition, frozenset[str]]
"""Where the replicas of a partition are, without the partitions of which that is not known."""

Partitions = Mapping[TaskId, Collection[TopicPartition]]


def with_racks(cluster: Cluster, sources: Partitions, changelogs: Partitions, racks: ReplicaRacks) -> Cluster:
    """The cluster, which now knows where the partitions of its tasks are."""
    return replace(cluster, source_racks=_known(sources, racks), changelog_racks=_known(changelogs, racks))


def _known(partitions: Partitions, racks: ReplicaRacks) -> dict[TaskId, tuple[frozenset[str], ...]]:
    """The tasks of which all partitions are known."""
    return {t: tuple(racks[p] for p in mine) for t, mine in partitions.items() if all(p in racks for p in mine)}


def not_followed(cluster: Cluster, config: AssignConfig) -> list[str]:
    """A warning if racks do not count although they should."""
    why, wanted = why_not_rack_aware(cluster, config), config.rack_aware_assignment_strategy
    return [f"rack_aware_assignment_strategy {wanted} is not followed: {why}"] if why and wanted != "none" else []
