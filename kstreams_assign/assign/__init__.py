"""The assignors: pure functions ``(Cluster, AssignConfig) -> Plan`` that place active tasks, standbys and warm-ups.

No clock, no I/O and no randomness: the same cluster always gets the same plan. Other rooms import from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kstreams_assign.assign.balance import (
    balanced,
    instance_balanced,
    owner_changes,
    owner_changes_lower_bound,
    subtopology_balanced,
    subtopology_spread,
)
from kstreams_assign.assign.check import check
from kstreams_assign.assign.converge import Round, after, converge, previous_owners
from kstreams_assign.assign.drain import drained
from kstreams_assign.assign.fallback_prior import fallback_prior
from kstreams_assign.assign.high_availability import high_availability
from kstreams_assign.assign.lags import TaskLags, by_lag, is_caught_up, lag_of, previous_tasks, rank
from kstreams_assign.assign.learner import LearnerMarks, LearnerPlan, learn, learner, revoke_being_learned
from kstreams_assign.assign.least_movement import least_movement, least_movement_by_rank
from kstreams_assign.assign.racks import cross_rack_partitions, why_not_rack_aware
from kstreams_assign.assign.should_rebalance import Movement, available_movements, should_rebalance
from kstreams_assign.assign.sticky import sticky
from kstreams_assign.assign.threads import ThreadTasks, distribute
from kstreams_assign.assign.values import (
    AssignConfig,
    Assignor,
    Client,
    Cluster,
    PartitionRacks,
    Placement,
    Plan,
    common_rack,
)

VERSIONS: Mapping[str, Mapping[int, Assignor]] = MappingProxyType(
    {
        "high_availability": {1: high_availability},
        "least_movement": {1: least_movement_by_rank, 2: least_movement},
        "sticky": {1: sticky},
        "fallback_prior": {1: fallback_prior},
        "learner": {1: learner},
    }
)
"""Setting name -> version -> assignor. It holds every version that some group may still need.

A change that decides differently is a new version. Delete an old version once no release in use is limited to it.
"""

ASSIGNORS: Mapping[str, Assignor] = MappingProxyType(
    {name: versions[max(versions)] for name, versions in VERSIONS.items()}
)
"""The newest version of each assignor."""

__all__ = [
    "ASSIGNORS",
    "VERSIONS",
    "AssignConfig",
    "Assignor",
    "Client",
    "Cluster",
    "LearnerMarks",
    "LearnerPlan",
    "Movement",
    "PartitionRacks",
    "Placement",
    "Plan",
    "Round",
    "TaskLags",
    "ThreadTasks",
    "after",
    "available_movements",
    "balanced",
    "by_lag",
    "check",
    "common_rack",
    "converge",
    "cross_rack_partitions",
    "distribute",
    "drained",
    "fallback_prior",
    "high_availability",
    "instance_balanced",
    "is_caught_up",
    "lag_of",
    "learn",
    "learner",
    "least_movement",
    "owner_changes",
    "owner_changes_lower_bound",
    "previous_owners",
    "previous_tasks",
    "rank",
    "revoke_being_learned",
    "should_rebalance",
    "sticky",
    "subtopology_balanced",
    "subtopology_spread",
    "why_not_rack_aware",
]
