"""The leader and its topology: look-ups, stateful tasks, and members with a different topology."""

from __future__ import annotations

from uuid import UUID

from kstreams_assign.assign import AssignConfig
from kstreams_assign.group.leader import lookups
from kstreams_assign.model import RepartitionTopic, Store, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.topology.internal import add_repartition_counts
from tests.group.little_group import LittleGroup

WORDS = "app-words-repartition"
COUNTING = TopologyShape(
    (
        SubtopologyShape(("lines",), sinks=(WORDS,)),
        SubtopologyShape((WORDS,), (Store("counts"),), (RepartitionTopic(WORDS),)),
    )
)


def test_tasks_and_changelogs_follow_from_the_sources_through_a_repartition_topic():
    counts = add_repartition_counts(COUNTING, {"lines": 3})
    assert sorted(COUNTING.tasks(counts)) == [TaskId(s, p) for s in range(2) for p in range(3)]
    assert lookups(COUNTING, "app", counts).changelog_topics == {"app-counts-changelog": 3}


def test_a_group_shares_the_tasks_of_both_subtopologies():
    little = LittleGroup(
        COUNTING, dict(add_repartition_counts(COUNTING, {"lines": 3})), AssignConfig(), "least_movement"
    )
    little.add(1)
    little.add(2)
    little.settle()
    assert sorted(len(member.running) for member in little.members.values()) == [3, 3]


def test_a_source_topic_that_is_a_changelog_is_looked_up_as_committed_and_never_created():
    table = TopologyShape((SubtopologyShape(("users",), (Store("users", source="users"), Store("totals"))),))
    wanted = lookups(table, "app", {"users": 2})
    assert wanted.changelog_topics == {"app-totals-changelog": 2}
    assert wanted.committed == (TopicPartition("users", 0), TopicPartition("users", 1))
    assert {p.topic for p in wanted.end_offsets} == {"app-totals-changelog"}
    assert table.source_changelogs == {"users"}


def test_a_store_without_a_changelog_is_stateful_for_us_and_not_for_java():
    unlogged = TopologyShape((SubtopologyShape(("orders",), (Store("cache", logged=False),)),))
    config = AssignConfig(num_standby_replicas=1)
    copies = {}
    for assignor in ("least_movement", "high_availability"):
        little = LittleGroup(unlogged, {"orders": 4}, config, assignor)
        little.add(1)
        little.add(2)
        placed = little.rebalance().placements
        copies[assignor] = sum(len(placement.standby) for placement in placed.values())
    assert copies == {"least_movement": 4, "high_availability": 0}


def test_a_leader_warns_about_members_with_a_different_topology():
    little = LittleGroup(COUNTING, dict(add_repartition_counts(COUNTING, {"lines": 1})))
    little.add(1)
    other = little.add(2)
    other.topics = ("lines", "clicks")
    other.positions = {TaskId(7, n): 5 for n in range(9)}
    warnings = little.rebalance().warnings
    start = "member member-2 runs another topology than the leader: it"
    fix = "run the same topology in all members"
    assert warnings == (
        f"{start} reads clicks; {fix}",
        f"{start} does not read {WORDS}; {fix}",
        f"{start} has state of the tasks 7_0, 7_1, 7_2, 7_3, 7_4 and 4 more; {fix}",
    )
    assert little.members[UUID(int=1)].running
