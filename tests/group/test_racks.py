"""Racks that members and brokers report reach the assignor, and missing racks cause a warning (KIP-925)."""

from __future__ import annotations

import pytest

from kstreams_assign.assign import AssignConfig
from kstreams_assign.model import TaskId, TopicPartition, changelog_topic
from tests.group.little_group import APPLICATION, LittleGroup, shape

IN_A = {TaskId(0, partition) for partition in (0, 1)}
IN_B = {TaskId(0, partition) for partition in (2, 3)}


def group(assignor: str, **settings: object) -> LittleGroup:
    """Return a member in each rack; the first two partitions are in rack b, which dealing in turn would not choose."""
    config = AssignConfig(rack_aware_assignment_strategy="min_traffic", max_warmup_replicas=8, **settings)
    little = LittleGroup(shape(), {"orders": 4}, config, assignor)
    for number, rack in ((1, "b"), (2, "a")):
        little.add(number).rack = rack
    changelog = changelog_topic(APPLICATION, "totals")
    for partition in range(4):
        rack = frozenset("a" if partition < 2 else "b")
        little.replica_racks |= {TopicPartition(topic, partition): rack for topic in ("orders", changelog)}
    return little


def not_followed(little: LittleGroup) -> list[str]:
    assert little.decision is not None
    return [text for text in little.decision.warnings if "is not followed" in text]


@pytest.mark.parametrize("assignor", ["high_availability", "least_movement"])
def test_tasks_run_where_their_records_are(assignor: str) -> None:
    little = group(assignor)
    little.settle()
    first, second = little.members.values()
    assert (first.running, second.running) == (IN_B, IN_A)
    assert not not_followed(little)


def test_a_member_without_a_rack_is_named_and_racks_are_ignored() -> None:
    little = group("high_availability")
    next(iter(little.members.values())).rack = None
    little.rebalance()
    (warning,) = not_followed(little)
    assert "does not report one rack" in warning


@pytest.mark.parametrize("assignor", ["sticky", "fallback_prior", "learner"])
def test_an_assignor_that_does_not_look_at_racks_is_named(assignor: str) -> None:
    little = group(assignor)
    little.rebalance()
    (warning,) = not_followed(little)
    assert f"assignor {assignor} does not look at racks" in warning


def test_changelog_racks_must_be_known_only_with_standbys() -> None:
    for standbys, warnings in ((0, 0), (1, 1)):
        little = group("high_availability", num_standby_replicas=standbys)
        del little.replica_racks[TopicPartition(changelog_topic(APPLICATION, "totals"), 3)]
        little.rebalance()
        assert len(not_followed(little)) == warnings


def test_without_a_strategy_racks_are_not_requested() -> None:
    little = LittleGroup(shape(), {"orders": 4})
    little.add(1)
    little.rebalance()
    assert not not_followed(little)
