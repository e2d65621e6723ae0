"""Values that a group may hold, for hypothesis: each for a single version, so that nothing is lost in encoding."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from kstreams_assign.model import (
    NO_PROBE_MS,
    RUNNING_OFFSET_SUM,
    UNKNOWN_OFFSET_SUM,
    HostInfo,
    TaskId,
    TopicPartition,
)
from kstreams_assign.wire import (
    UNKNOWN_VERSION,
    AssignmentInfo,
    AwaitedProcess,
    ConsumerAssignment,
    ConsumerSubscription,
    GroupMetadata,
    GroupTrailer,
    KipSubscription,
    MemberTrailer,
    OffsetCommit,
    StoredMember,
    SubscriptionInfo,
)

VERSIONS = range(1, 12)
KIP_VERSIONS = [("kip441", 5), ("kip441", 6), ("kip441", 7), ("kip441-draft", 4), ("kip441-draft", 5)]

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""The machine may be busy: how long an example takes says nothing."""

texts = st.text(max_size=8)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
small = st.integers(0, 40)
partitions = st.lists(st.builds(TopicPartition, texts, int32), max_size=4).map(tuple)
hosts = st.dictionaries(st.builds(HostInfo, texts, int32), partitions, max_size=4)


def task_ids(version: int = 11):
    names = st.none() | st.text(min_size=1, max_size=4) if version >= 10 else st.none()
    return st.builds(TaskId, small | int32, small | int32, names)


def offset_sums(version: int):
    kept = int64 if version >= 7 else st.sampled_from([RUNNING_OFFSET_SUM, UNKNOWN_OFFSET_SUM])
    return st.dictionaries(task_ids(version), kept, max_size=12)


sets_of_tasks = st.frozensets(task_ids(1), max_size=8)

# Only Python members build trailers, so their task ids are valid.
trailer_tasks = st.lists(st.builds(TaskId, small, small, st.none() | texts), max_size=8, unique=True).map(tuple)
awaited = st.dictionaries(
    st.uuids(),
    st.builds(
        AwaitedProcess,
        st.integers(0, 2**31 - 1),
        trailer_tasks,
        trailer_tasks,
        st.integers(1, 9),
        st.dictionaries(texts, texts, max_size=2),
        st.none() | texts,
    ),
    max_size=2,
)
loads = st.dictionaries(st.builds(TaskId, small, small, st.none() | texts), st.integers(0, 2**63 - 1), max_size=5)
member_trailers = st.builds(
    MemberTrailer,
    st.dictionaries(texts, small, max_size=3),
    texts,
    st.booleans(),
    st.none() | small,
    small,
    st.booleans(),
    st.booleans(),
    st.none() | awaited,
    st.none() | small,
    st.sampled_from(["tasks", "input_rate", "state_size"]),
    loads,
)
group_trailers = st.builds(
    GroupTrailer,
    texts,
    small,
    st.dictionaries(st.uuids(), trailer_tasks, max_size=3),
    st.none() | st.integers(0, 2**63 - 1),
    st.booleans(),
    trailer_tasks,
    st.dictionaries(st.builds(TaskId, small, small, st.none() | texts), st.uuids(), max_size=5),
    st.dictionaries(st.uuids(), st.integers(1, 100), max_size=3),
    st.lists(st.uuids(), max_size=2).map(tuple),
    st.none() | small,
    awaited,
    loads,
)


@st.composite
def subscriptions(draw, version: int):
    return SubscriptionInfo(
        version=version,
        latest_supported_version=draw(st.integers(version, 2**31 - 1)) if version >= 3 else UNKNOWN_VERSION,
        process_id=draw(st.uuids()),
        user_end_point=draw(st.none() | st.text(min_size=1)) if version >= 2 else None,
        task_offset_sums=draw(offset_sums(version)),
        unique_field=draw(st.integers(-128, 127)) if version >= 8 else 0,
        error_code=draw(int32) if version >= 9 else 0,
        client_tags=draw(st.dictionaries(texts, texts, max_size=3)) if version >= 11 else {},
        trailer=draw(st.none() | member_trailers),
    )


@st.composite
def assignments(draw, version: int):
    tasks = task_ids(version)
    return AssignmentInfo(
        version=version,
        commonly_supported_version=draw(int32) if version >= 3 else UNKNOWN_VERSION,
        active_tasks=draw(st.lists(tasks, max_size=12).map(tuple)),
        standby_tasks=draw(st.dictionaries(tasks, partitions, max_size=5)),
        partitions_by_host=draw(hosts) if version >= 2 else {},
        standby_partitions_by_host=draw(hosts) if version >= 6 else {},
        error_code=draw(int32) if version >= 4 else 0,
        next_rebalance_ms=draw(int64) if version >= 7 else NO_PROBE_MS,
        trailer=draw(st.none() | group_trailers),
    )


@st.composite
def kip_subscriptions(draw, dialect: str, version: int):
    """Draw a value of one dialect and version."""
    strategy_by_field = {
        ("kip441", 6): {"prev_tasks": sets_of_tasks, "standby_tasks": sets_of_tasks},
        ("kip441-draft", 4): {"prev_tasks": sets_of_tasks, "standby_tasks": sets_of_tasks},
        ("kip441-draft", 5): {"store_lags": st.dictionaries(texts, int32, max_size=8)},
    }.get((dialect, version), {"task_lags": st.dictionaries(task_ids(version), int64, max_size=12)})
    value = KipSubscription(
        version=version,
        latest_supported_version=draw(st.integers(version, 2**31 - 1)),
        process_id=draw(st.uuids()),
        user_end_point=draw(st.none() | st.text(min_size=1)),
        trailer=draw(st.none() | member_trailers),
        **{name: draw(values) for name, values in strategy_by_field.items()},
    )
    return dialect, value


blobs = st.binary(max_size=12)
tags = st.dictionaries(st.integers(1, 2**31 - 1), blobs, max_size=3)
by_topic = st.dictionaries(texts, st.lists(int32, min_size=1, max_size=4), max_size=3).map(
    lambda topics: tuple(TopicPartition(topic, number) for topic, held in topics.items() for number in held)
)


@st.composite
def consumer_subscriptions(draw, version: int):
    return ConsumerSubscription(
        version=version,
        topics=draw(st.lists(texts, max_size=4).map(tuple)),
        user_data=draw(st.none() | blobs),
        owned_partitions=draw(by_topic) if version >= 1 else (),
        generation_id=draw(int32) if version >= 2 else -1,
        rack_id=draw(st.none() | texts) if version >= 3 else None,
    )


consumer_assignments = st.builds(ConsumerAssignment, st.integers(0, 3), by_topic, st.none() | blobs)


@st.composite
def offset_commits(draw, version: int):
    return OffsetCommit(
        version=version,
        offset=draw(int64),
        metadata=draw(st.text(max_size=90)),
        commit_timestamp_ms=draw(int64),
        expire_timestamp_ms=draw(int64) if version == 1 else -1,
        leader_epoch=draw(int32) if version >= 3 else -1,
        topic_id=draw(st.none() | st.uuids()) if version >= 4 else None,
        tagged_fields=draw(tags) if version >= 4 else {},
    )


@st.composite
def group_members(draw, version: int):
    return StoredMember(
        member_id=draw(texts),
        client_id=draw(texts),
        client_host=draw(texts),
        session_timeout_ms=draw(int32),
        subscription=draw(st.binary(max_size=300)),
        assignment=draw(blobs),
        rebalance_timeout_ms=draw(int32) if version >= 1 else -1,
        group_instance_id=draw(st.none() | texts) if version >= 3 else None,
        tagged_fields=draw(tags) if version >= 4 else {},
    )


@st.composite
def group_metadata(draw, version: int):
    return GroupMetadata(
        version=version,
        protocol_type=draw(texts),
        generation=draw(int32),
        protocol=draw(st.none() | texts),
        leader=draw(st.none() | texts),
        members=draw(st.lists(group_members(version), max_size=4).map(tuple)),
        current_state_timestamp_ms=draw(int64) if version >= 2 else -1,
        tagged_fields=draw(tags) if version >= 4 else {},
    )
