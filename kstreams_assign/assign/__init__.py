"""The assignors: pure functions ``(Cluster, AssignConfig) -> Plan`` that place active tasks, standbys and warm-ups.

No clock, no I/O and no randomness: the same cluster always gets the same plan. Other rooms import from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kstreams_assign.assign.awaited import await_assignor, find_waiting, give_back
from kstreams_assign.assign.balance import (
    is_balanced,
    is_instance_balanced,
    is_subtopology_balanced,
    owner_changes,
    owner_changes_lower_bound,
    subtopology_spread,
)
from kstreams_assign.assign.check import check
from kstreams_assign.assign.converge import Round, apply_plan, converge, previous_owners
from kstreams_assign.assign.drain import drain_assignor
from kstreams_assign.assign.java.fallback_prior import fallback_prior
from kstreams_assign.assign.java.high_availability import high_availability
from kstreams_assign.assign.java.sticky import sticky
from kstreams_assign.assign.java.streams_sticky import (
    StreamsMember,
    SubtopologyTasks,
    TargetTasks,
    assign_streams_tasks,
)
from kstreams_assign.assign.java.threads import ThreadTasks, distribute
from kstreams_assign.assign.lags import TaskLags, compute_lag, find_previous_tasks, is_caught_up, rank, sort_by_lag
from kstreams_assign.assign.learner import LearnerMarks, LearnerPlan, learn, learner, revoke_being_learned
from kstreams_assign.assign.least_movement.assignor import least_movement
from kstreams_assign.assign.load_balance import Loads, is_load_balanced, sum_loads
from kstreams_assign.assign.racks import cross_rack_partitions, why_not_rack_aware
from kstreams_assign.assign.should_rebalance import Movement, available_movements, should_rebalance
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
        "least_movement": {1: least_movement},
        "high_availability": {1: high_availability},
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
    "Loads",
    "Movement",
    "PartitionRacks",
    "Placement",
    "Plan",
    "Round",
    "StreamsMember",
    "SubtopologyTasks",
    "TargetTasks",
    "TaskLags",
    "ThreadTasks",
    "apply_plan",
    "assign_streams_tasks",
    "available_movements",
    "await_assignor",
    "check",
    "common_rack",
    "compute_lag",
    "converge",
    "cross_rack_partitions",
    "distribute",
    "drain_assignor",
    "fallback_prior",
    "find_previous_tasks",
    "find_waiting",
    "give_back",
    "high_availability",
    "is_balanced",
    "is_caught_up",
    "is_instance_balanced",
    "is_load_balanced",
    "is_subtopology_balanced",
    "learn",
    "learner",
    "least_movement",
    "owner_changes",
    "owner_changes_lower_bound",
    "previous_owners",
    "rank",
    "revoke_being_learned",
    "should_rebalance",
    "sort_by_lag",
    "sticky",
    "subtopology_spread",
    "sum_loads",
    "why_not_rack_aware",
]
