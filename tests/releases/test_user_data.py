"""The bytes of earlier releases are read and written again unchanged, and our trailer disturbs none of them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from uuid import UUID

import pytest

from kstreams_assign.group.encode import encode_error
from kstreams_assign.group.values import ErrorCode, JoinedMember
from kstreams_assign.group.view import read_group
from kstreams_assign.model import HostInfo, TaskId, TopicPartition
from kstreams_assign.wire import (
    LATEST_SUPPORTED_VERSION,
    AssignmentInfo,
    FutureSubscription,
    GroupTrailer,
    MemberTrailer,
    SubscriptionInfo,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tests.releases.releases import LATEST_VERSION, command

PROCESS = UUID("01234567-89ab-cdef-fedc-ba9876543210")
WORDS = [TopicPartition("words", number) for number in range(3)]
HOSTS = {HostInfo("host", 80): (WORDS[0], WORDS[1])}
MEMBER = MemberTrailer({"least_movement": 2, "high_availability": 1}, "9f86d081")
GROUP = GroupTrailer(
    assignor="high_availability",
    assignor_version=1,
    warmups={PROCESS: (TaskId(0, 2),)},
    next_probe_ms=1_700_000_000_000,
    followup=True,
    withheld=(TaskId(0, 2),),
    owners={TaskId(0, 2): PROCESS},
)


class Java:
    """The user-data classes of one release, in a process that answers lines."""

    def __init__(self, release: str, process: subprocess.Popen[str]) -> None:
        self.newest = LATEST_VERSION[release]
        self._process = process

    def answers(self, *questions: str) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.writelines(f"{question}\n" for question in questions)
        self._process.stdin.flush()
        return [self._process.stdout.readline() for _ in questions]


@pytest.fixture(scope="module", params=LATEST_VERSION)
def java(
    request: pytest.FixtureRequest,
    releases: None,  # noqa: ARG001  # fetches the jars
) -> Iterator[Java]:
    words = command("UserData", request.param)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Java(request.param, process)


def subscription(version: int, trailer: MemberTrailer | None = None) -> bytes:
    return encode_subscription(
        SubscriptionInfo(
            version=version,
            latest_supported_version=LATEST_SUPPORTED_VERSION,
            process_id=PROCESS,
            user_end_point="host:80",
            task_offset_sums={TaskId(0, 0): -2, TaskId(0, 1): 700},
            unique_field=5,
            client_tags={"zone": "a"},
            trailer=trailer,
        )
    )


def assignment(version: int, trailer: GroupTrailer | None = None) -> bytes:
    return encode_assignment(
        AssignmentInfo(
            version=version,
            commonly_supported_version=LATEST_SUPPORTED_VERSION,
            active_tasks=(TaskId(0, 0), TaskId(0, 1)),
            standby_tasks={TaskId(0, 2): (WORDS[2],)},
            partitions_by_host=HOSTS,
            standby_partitions_by_host=HOSTS,
            trailer=trailer,
        )
    )


def test_bytes_of_a_release_are_read_and_written_again_unchanged(java: Java) -> None:
    versions = range(1, java.newest + 1)
    for version, answer in zip(versions, java.answers(*(f"write {version}" for version in versions)), strict=True):
        subscribed, assigned = map(bytes.fromhex, answer.split())
        member, tasks = decode_subscription(subscribed), decode_assignment(assigned)
        assert isinstance(member, SubscriptionInfo)
        assert (member.version, member.process_id, tasks.version) == (version, PROCESS, version)
        assert member.prev_tasks == {TaskId(0, 0)}
        assert tasks.active_tasks == (TaskId(0, 0), TaskId(1, 0))
        assert encode_subscription(member) == subscribed
        assert encode_assignment(tasks) == assigned


def test_the_newest_version_of_a_release_is_the_one_that_it_claims(java: Java) -> None:
    written, refused = java.answers(f"write {java.newest}", f"write {java.newest + 1}")
    member = decode_subscription(bytes.fromhex(written.split()[0]))
    assert not isinstance(member, FutureSubscription)
    assert member.latest_supported_version == java.newest
    assert refused.startswith("error: ")


def test_our_trailer_does_not_change_what_a_release_reads(java: Java) -> None:
    for version in range(3, java.newest + 1):
        plain = (f"subscription {subscription(version).hex()}", f"assignment {assignment(version).hex()}")
        trailed = (
            f"subscription {subscription(version, MEMBER).hex()}",
            f"assignment {assignment(version, GROUP).hex()}",
        )
        read = java.answers(*plain)
        assert java.answers(*trailed) == read
        assert not [line for line in read if line.startswith("error: ")]


@pytest.mark.parametrize("code", [ErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA, ErrorCode.ASSIGNMENT_ERROR])
def test_a_release_reads_the_error_code_of_our_leader(java: Java, code: ErrorCode) -> None:
    view = read_group([JoinedMember("a", ("words",), (), subscription(java.newest))])
    [answer] = java.answers(f"assignment {encode_error(view, code).user_data.hex()}")
    assert f"version={java.newest}," in answer
    assert f", error code {code:d}, " in answer


def test_an_older_release_reads_our_newest_subscription_as_a_future_version_with_or_without_trailer(java: Java) -> None:
    plain, trailed = java.answers(
        *(f"subscription {bytes_.hex()}" for bytes_ in (subscription(11), subscription(11, MEMBER)))
    )
    assert plain == trailed
    assert not plain.startswith("error: ")
    endpoint_read = "host:80" in plain or str(list(b"host:80")) in plain
    assert endpoint_read is (java.newest == LATEST_SUPPORTED_VERSION)
