"""A follower's reading of its assignment: what it accepts, what it refuses with a reason, and when it rejoins."""

from __future__ import annotations

from uuid import UUID

import pytest

from kstreams_assign.config import Config
from kstreams_assign.errors import AssignmentRefused, MalformedUserData, TopologyMismatch
from kstreams_assign.group.adoption import read_assignment
from kstreams_assign.model import NO_PROBE_MS, HostInfo, SubtopologyShape, TaskId, TopicPartition, TopologyShape
from kstreams_assign.wire import AssignmentInfo, GroupTrailer, encode_assignment
from tests.group.little_group import shape

ME, OTHER = UUID(int=1), UUID(int=2)
ORDERS = [TopicPartition("orders", p) for p in range(3)]
TASKS = [TaskId(0, p) for p in range(3)]


def info(**facts: object) -> bytes:
    return encode_assignment(AssignmentInfo(**{"version": 11, "commonly_supported_version": 11, **facts}))


def test_the_trailer_separates_warm_ups_from_standbys() -> None:
    trailer = GroupTrailer("high_availability", 1, warmups={ME: (TASKS[1],), OTHER: (TASKS[2],)}, next_probe_ms=7)
    standbys = {TASKS[1]: (ORDERS[1],), TASKS[2]: (ORDERS[2],)}
    data = info(active_tasks=(TASKS[0],), standby_tasks=standbys, trailer=trailer)
    adopted = read_assignment(ORDERS[:1], data, shape(), ME)
    assert adopted.active == {TASKS[0]: (ORDERS[0],)}
    assert adopted.warmup == {TASKS[1]}
    assert adopted.standby == {TASKS[2]}
    assert adopted.next_probe_ms == 7
    assert adopted.warmups == {ME: (TASKS[1],), OTHER: (TASKS[2],)}, "the whole group's"


def test_without_a_trailer_as_from_java_all_replicas_are_standbys() -> None:
    adopted = read_assignment([], info(standby_tasks={TASKS[1]: (ORDERS[1],)}), shape(), ME)
    assert adopted.standby == {TASKS[1]}
    assert not adopted.warmup
    assert not adopted.follow_up


def test_partitions_and_tasks_are_matched_in_sorted_order() -> None:
    data = info(active_tasks=(TASKS[0], TASKS[2]))
    adopted = read_assignment([ORDERS[2], ORDERS[0]], data, shape(), ME)
    assert adopted.active == {TASKS[0]: (ORDERS[0],), TASKS[2]: (ORDERS[2],)}


def test_more_partitions_than_tasks_are_refused() -> None:
    with pytest.raises(MalformedUserData, match="1 active tasks for 2 partitions"):
        read_assignment(ORDERS[:2], info(active_tasks=(TASKS[0],)), shape(), ME)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (1, "a source topic does not exist; the leader's log names it. Create the topic and restart the members"),
        (3, "the group's leader could not assign tasks (error code 3); its log says why"),
        (4, "a member requested a shutdown of the whole application; its log says why"),
        (77, "the group's leader sent error code 77 instead of tasks; its log says why"),
    ],
)
def test_an_error_code_is_refused_with_its_meaning(code: int, text: str) -> None:
    with pytest.raises(AssignmentRefused) as refused:
        read_assignment([], info(error_code=code), shape(), ME)
    assert str(refused.value) == text


def test_a_member_names_the_source_topics_that_are_missing() -> None:
    (topic, *_) = shape().source_topics
    for leads in (True, False):
        with pytest.raises(AssignmentRefused) as refused:
            read_assignment([], info(error_code=1), shape(), ME, partition_counts={}, leads=leads)
        assert str(refused.value) == f"source topics do not exist: {topic}; create them and restart the members"
    with pytest.raises(AssignmentRefused, match="the leader's log names it"):  # this member's metadata may be newer
        read_assignment([], info(error_code=1), shape(), ME, partition_counts=dict.fromkeys(shape().source_topics, 1))


@pytest.mark.parametrize(
    ("task", "partition"),
    [(TaskId(1, 0), ORDERS[0]), (TaskId(0, 1), ORDERS[0]), (TaskId(0, 0), TopicPartition("clicks", 0))],
)
def test_a_different_topology_is_refused_at_the_first_assignment(task: TaskId, partition: TopicPartition) -> None:
    with pytest.raises(TopologyMismatch, match="same topology"):
        read_assignment([partition], info(active_tasks=(task,)), shape(), ME)


@pytest.mark.parametrize("role", ["active", "standby"])
@pytest.mark.parametrize("subtopology", [-1, -2, -(2**31)])
def test_a_negative_subtopology_is_a_different_topology(subtopology: int, role: str) -> None:
    task = TaskId(subtopology, 0)
    data = info(active_tasks=(task,)) if role == "active" else info(standby_tasks={task: (ORDERS[0],)})
    with pytest.raises(TopologyMismatch, match=f"this member's subtopology {subtopology} reads nothing"):
        read_assignment(ORDERS[:1] if role == "active" else [], data, shape(), ME)


def test_a_member_whose_endpoint_is_missing_rejoins_at_once() -> None:
    hosts = {HostInfo("other", 1): (ORDERS[0],)}
    data = info(partitions_by_host=hosts)
    assert read_assignment([], data, shape(), ME, HostInfo("other", 1)).next_rebalance_ms == NO_PROBE_MS
    assert read_assignment([], data, shape(), ME, HostInfo("me", 1)).next_rebalance_ms == 0


def test_a_damaged_trailer_is_dropped_with_a_warning() -> None:
    data = info(active_tasks=(TASKS[0],)) + b"KSA\x01rubbish"
    adopted = read_assignment(ORDERS[:1], data, shape(), ME)
    assert adopted.active
    assert adopted.warnings


@pytest.mark.parametrize(
    ("task", "partitions", "lacking"),
    [
        (TaskId(0, 0), [TopicPartition("a", 0), TopicPartition("b", 0)], "c"),
        (TaskId(0, 1), [TopicPartition("a", 1)], "b"),
    ],
)
def test_a_task_that_lacks_a_source_is_refused(task: TaskId, partitions: list[TopicPartition], lacking: str) -> None:
    """Every topic has a partition for the first task, and copartitioned ones have as many."""
    joined = TopologyShape((SubtopologyShape(("a", "b", "c"), copartition=(("a", "b"),)),))
    data = info(active_tasks=(task,) * len(partitions))
    with pytest.raises(
        TopologyMismatch, match=f"but not those of {lacking}, but this member's subtopology 0 reads a, b, c"
    ):
        read_assignment(partitions, data, joined, ME)


def test_a_task_beyond_the_smaller_source_is_accepted() -> None:
    uneven = TopologyShape((SubtopologyShape(("a", "b")),))
    given = [TopicPartition("a", 1)]
    assert read_assignment(given, info(active_tasks=(TaskId(0, 1),)), uneven, ME).active == {TaskId(0, 1): (*given,)}


def test_a_topic_that_matches_the_pattern_is_accepted_and_another_is_refused() -> None:
    wide = TopologyShape((SubtopologyShape((), pattern="region-.*"),))
    data = info(active_tasks=(TaskId(0, 1),))
    assert read_assignment([TopicPartition("region-eu", 1)], data, wide, ME).active
    with pytest.raises(
        TopologyMismatch, match=r"orders-1, but this member's subtopology 0 reads topics that match region-\.\*"
    ):
        read_assignment([TopicPartition("orders", 1)], data, wide, ME)


@pytest.mark.parametrize("leader", ["Java", "an earlier release"])
@pytest.mark.parametrize(
    ("application_server", "java_reads", "kept"),
    [
        ("[::1]:7000", HostInfo("::1", 7000), HostInfo("[::1]", 7000)),
        ("http://pod:7000", HostInfo("pod", 7000), HostInfo("http://pod", 7000)),
    ],
)
def test_a_member_finds_its_endpoint_in_the_host_map_of_each_leader(
    leader: str, application_server: str, java_reads: HostInfo, kept: HostInfo
) -> None:
    config = Config("app", "localhost:1", application_server=application_server)
    hosts = {HostInfo("other", 1): (), java_reads if leader == "Java" else kept: (ORDERS[0],)}
    data = info(partitions_by_host=hosts)
    assert read_assignment([], data, shape(), ME, config.endpoint).next_rebalance_ms == NO_PROBE_MS
