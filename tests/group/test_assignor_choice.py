"""Which assignor decides: the one that is set, if all members know it, else Java's."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from kstreams_assign.allowed_values import ASSIGNOR_NAMES
from kstreams_assign.assign import ASSIGNORS, VERSIONS, AssignConfig, high_availability, least_movement
from kstreams_assign.config import Config
from kstreams_assign.group import assignor_choice
from kstreams_assign.group.assignor_choice import explain_other_assignor, known_assignors
from tests.group.little_group import LittleGroup, shape


def group(*known: dict[str, int]) -> LittleGroup:
    """Return a group with least movement whose members know these assignors."""
    little = LittleGroup(shape(), {"orders": 4, "clicks": 1}, AssignConfig(), "least_movement")
    for number, assignors in enumerate(known, start=1):
        little.add(number).assignors = assignors
    return little


def test_the_default_is_ours_and_every_assignor_can_be_set():
    assert Config("app", "broker:9092").assignor == "least_movement"
    assert list(ASSIGNOR_NAMES) == list(VERSIONS) == list(ASSIGNORS), "messages and settings list them in one order"
    assert known_assignors() == dict.fromkeys(ASSIGNOR_NAMES, 1)


def test_the_leader_runs_the_newest_version_that_all_members_know(monkeypatch: pytest.MonkeyPatch):
    two = {**VERSIONS, "least_movement": {1: high_availability, 2: least_movement}}
    monkeypatch.setattr(assignor_choice, "VERSIONS", MappingProxyType(two))
    rolling = group({"least_movement": 1}, {"least_movement": 2}, {"least_movement": 9})
    decision = rolling.rebalance()
    assert (decision.assignor, decision.assignor_version, decision.warnings) == ("least_movement", 1, ())
    rolling.remove(1)
    decision = rolling.rebalance()
    assert (decision.assignor, decision.assignor_version, decision.warnings) == ("least_movement", 2, ())


def test_a_member_that_does_not_know_the_assignor_is_named():
    decision = group({"least_movement": 1}, {"high_availability": 1}).rebalance()
    assert decision.assignor == "high_availability"
    assert [warning for warning in decision.warnings if "member-2" in warning and "least_movement" in warning]


@pytest.mark.parametrize(
    ("decided", "wanted", "said"),
    [
        ("least_movement", "least_movement", None),
        (None, "high_availability", None),
        ("fallback_prior", "least_movement", None),
        (None, "least_movement", "not a Python member"),
        ("high_availability", "least_movement", "uses assignor high_availability, but assignor is least_movement here"),
    ],
)
def test_a_follower_reports_that_another_assignor_decides(decided, wanted, said):
    explanation = explain_other_assignor(decided, wanted)
    assert (explanation is None) if said is None else (said in explanation)
