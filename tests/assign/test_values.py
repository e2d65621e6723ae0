"""What a cluster, a client and the settings refuse: each error names the key, the value and what is allowed."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from uuid import UUID

import pytest

from kstreams_assign.assign import AssignConfig, Client, Cluster, Placement, Plan
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TaskId

PROCESS = UUID(int=1)


def test_checked_settings_do_not_change():
    with pytest.raises(FrozenInstanceError):
        AssignConfig().max_warmup_replicas = 0


def test_settings_have_kafkas_defaults():
    assert AssignConfig() == AssignConfig(10_000, 2, 0, 600_000, ())


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("acceptable_recovery_lag", -1, ">= 0"),
        ("max_warmup_replicas", 0, ">= 1"),
        ("num_standby_replicas", -1, ">= 0"),
        ("num_standby_replicas", "1", "whole number"),
        ("probing_rebalance_interval_ms", 59_999, ">= 60000"),
        ("rack_aware_assignment_tags", ["zone"], "tuple"),
        ("rack_aware_assignment_tags", (1,), "tuple of tag keys"),
    ],
)
def test_a_wrong_setting_is_refused_with_key_value_and_what_is_allowed(key, value, allowed):
    with pytest.raises(ConfigError) as refused:
        AssignConfig(**{key: value})
    assert key in str(refused.value)
    assert repr(value) in str(refused.value)
    assert allowed in str(refused.value)


def test_a_process_without_threads_is_refused():
    with pytest.raises(ConfigError, match=r"capacity of process .* is 0"):
        Client(PROCESS, capacity=0)


def test_tasks_without_processes_or_a_duplicate_process_are_refused():
    with pytest.raises(ConfigError, match="clients is empty"):
        Cluster((), frozenset([TaskId(0, 0)]))
    with pytest.raises(ConfigError, match=r"contains process .* twice"):
        Cluster((Client(PROCESS), Client(PROCESS)), frozenset())


def test_a_task_is_either_stateful_or_stateless():
    task = TaskId(0, 0)
    with pytest.raises(ConfigError, match="task 0_0 is both"):
        Cluster((Client(PROCESS),), frozenset([task]), frozenset([task]))


def test_named_topologies_do_not_mix_with_unnamed_ones():
    with pytest.raises(ConfigError, match="name all topologies or none"):
        Cluster((Client(PROCESS),), frozenset([TaskId(0, 0, "words")]), frozenset([TaskId(1, 0)]))


def test_owners_tell_who_runs_each_task():
    task, copy = TaskId(0, 0), TaskId(0, 1)
    plan = Plan({PROCESS: Placement(frozenset([task]), frozenset([copy]))}, probing=False)
    assert plan.owners == {task: PROCESS}
    assert plan.placements[PROCESS].copies == {task, copy}
