"""A group that processes exactly once: processes that a change adds do so too."""

from __future__ import annotations

import pytest

from kstreams_assign.observe.changes import Alternative
from kstreams_assign.observe.group_state import state_of_group
from kstreams_assign.observe.what_if import predict
from tests.observe.seen_group import SeenGroup, settled

FIRST, SECOND = sorted(settled().members)
WEAKER = "Python members run at least once, the others exactly once"


def group_with(*exactly_once: bool, java_leads: bool = False) -> SeenGroup:
    group = settled(ours=not java_leads)
    for member, is_exactly_once in zip(group.members.values(), exactly_once, strict=True):
        member.exactly_once = is_exactly_once
    group.rebalance()
    return group


def weaker(group: SeenGroup, change: Alternative) -> list[str]:
    warnings = predict(state_of_group(group.observed(acceptable_recovery_lag=100)), change).warnings
    return [text for text in warnings if WEAKER in text]


@pytest.mark.parametrize("change", [Alternative(add=1), Alternative(add=2, threads=2), Alternative(replace=(FIRST,))])
def test_members_that_a_change_adds_process_as_the_group_does(change: Alternative) -> None:
    assert weaker(group_with(True, True), change) == []
    assert weaker(group_with(False, False), change) == []


def test_a_replacement_processes_as_its_predecessor_did() -> None:
    group = group_with(True, False)
    assert weaker(group, Alternative(replace=(SECOND,)))[0].startswith("1 of 2")
    assert weaker(group, Alternative(replace=(FIRST,)))[0].startswith("1 of 2")


def test_where_members_differ_only_those_of_the_group_are_named() -> None:
    (said,) = weaker(group_with(True, False), Alternative(add=1))
    assert said.startswith("1 of 3")
    assert said.endswith(f"in member-{SECOND.int}")
