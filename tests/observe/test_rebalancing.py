"""What is described in the middle of a rebalance: the group is not balanced, and a line names what it waits for."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from kstreams_assign.observe.cluster import ObservedGroup
from kstreams_assign.observe.decoded import decode_group
from kstreams_assign.observe.describe import describe
from kstreams_assign.observe.document import document
from kstreams_assign.observe.reasons import reasons
from kstreams_assign.observe.settings import settings_of
from kstreams_assign.observe.snapshot import DescribedMember, GroupSnapshot
from kstreams_assign.observe.topology import inferred_topology
from tests.observe.seen_group import SeenGroup, scaled_out, settled

FIRST, SECOND = (UUID(int=number) for number in (1, 2))
NEWCOMER = DescribedMember("member-3", "slow", "/10.0.0.3", None, b"", b"")


def observed(snapshot: GroupSnapshot) -> ObservedGroup:
    decoded = decode_group(snapshot)
    return ObservedGroup(decoded, inferred_topology(decoded), settings_of(decoded, {"acceptable_recovery_lag": 100}))


def in_state(state: str, group: SeenGroup | None = None, **changes: object) -> GroupSnapshot:
    return replace((group or settled()).snapshot(), state=state, rebalance_timeout_ms=300_000, **changes)


def said(snapshot: GroupSnapshot) -> list[str]:
    return reasons(describe(observed(snapshot)))


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_a_group_in_a_rebalance_is_not_balanced_however_its_tasks_are_spread(state):
    about = describe(observed(in_state(state)))
    assert (about.balanced_instances, about.balanced_subtopologies, about.unowned) == (True, True, ())
    assert not about.balanced
    assert document(about)["balanced"] is False
    text = "\n".join(reasons(about))
    assert "not balanced: a rebalance has not ended\n" in f"{text}\n"
    assert "no probing rebalance is due" not in text
    assert describe(observed(in_state("Stable"))).balanced


def test_a_group_with_tasks_between_two_owners_is_not_balanced_though_each_has_got_its_owner():
    group = scaled_out(partitions=2)
    group.catch_up()
    assert group.rebalance().withheld
    about = describe(group.observed(acceptable_recovery_lag=100))
    assert about.balanced_instances
    assert not about.unowned
    assert not about.balanced
    assert "not balanced: a rebalance has not ended" in reasons(about)
    group.rebalance()
    assert describe(group.observed(acceptable_recovery_lag=100)).balanced


def test_a_rebalance_that_waits_names_the_members_and_those_that_join_and_have_left():
    waits = in_state("PreparingRebalance", joining=(NEWCOMER,))
    assert said(waits)[0] == (
        f"a rebalance has begun: it ends once {FIRST}, {SECOND} have joined again, in 5 min at the latest (the "
        "brokers do not report which have); joining: slow (10.0.0.3)"
    )
    assert said(replace(waits, joining=(), left=("member-2",)))[0] == (
        f"a rebalance has begun: it ends once {FIRST} has joined again, in 5 min at the latest (the brokers do not "
        f"report which have); left: {SECOND}"
    )
    ends = said(replace(waits, state="CompletingRebalance"))[0]
    assert ends == "all members have joined: the rebalance waits for the leader's assignment; joining: slow (10.0.0.3)"


def test_a_rebalance_that_all_former_members_have_left_names_those_that_join():
    waits = in_state("PreparingRebalance", left=("member-1", "member-2"), joining=(NEWCOMER,))
    assert said(waits)[0] == (
        f"a rebalance has begun: it waits for more members to join; joining: slow (10.0.0.3); left: {FIRST}, {SECOND}"
    )


def test_the_first_rebalance_of_a_group_names_the_members_that_join():
    """The brokers describe them without their bytes, and there is no generation yet."""
    waits = in_state("PreparingRebalance", members=(NEWCOMER,), joining=(NEWCOMER,))
    (sentence,) = said(waits)
    assert sentence.endswith("its assignment can be read once it is stable; joining: slow (10.0.0.3)")


def test_the_loss_of_a_task_with_an_empty_changelog_costs_nothing_and_is_left_out():
    group = settled(num_standby_replicas=0)
    snapshot = group.snapshot()
    ends = dict.fromkeys(snapshot.end_offsets, 0)
    assert [text for text in said(snapshot) if text.startswith("losing ")]
    assert [text for text in said(replace(snapshot, end_offsets=ends)) if text.startswith("losing ")] == []
    (task, *_) = sorted(describe(observed(snapshot)).restores[FIRST])
    kept = {changelog: 40 if changelog.partition == task.partition else 0 for changelog in ends}
    (loss,) = [text for text in said(replace(snapshot, end_offsets=kept)) if text.startswith("losing ")]
    assert loss == (f"losing {FIRST} would cost a restore of {task} (up to 40 records): no other process has a replica")
