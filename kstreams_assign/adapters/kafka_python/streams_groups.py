"""What a coordinator of streams groups (KIP-1071) is asked: heartbeats, descriptions, commits.

kafka-python has no schema for the first two.
``wire`` makes and reads the bytes; kafka-python finds the coordinator, connects, authenticates and waits. A ``_Call``
has the form of its requests, as far as its connection uses that form (3.0.12). What must not live here: when a member
sends a heartbeat, and what an answer means.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

from kafka import errors as kafka_errors
from kafka.protocol.consumer import OffsetCommitRequest
from kafka.protocol.metadata import CoordinatorType

from kstreams_assign.adapters.kafka_python.admin import Admin, connected, group_settings
from kstreams_assign.adapters.kafka_python.faults import translated
from kstreams_assign.adapters.kafka_python.streams_commits import check_commit, commit_request
from kstreams_assign.group.streams_settings import STATIC_MEMBERS_VERSION
from kstreams_assign.group.values import MemberId
from kstreams_assign.model import TopicPartition
from kstreams_assign.wire import (
    DescribedStreamsGroup,
    StreamsDescribeRequest,
    StreamsHeartbeatRequest,
    StreamsHeartbeatResponse,
    decode_streams_describe_response,
    decode_streams_heartbeat_response,
    encode_streams_describe_request,
    encode_streams_heartbeat_request,
)
from kstreams_assign.wire.streams_describe import DESCRIBE_API_KEY
from kstreams_assign.wire.streams_heartbeat import HEARTBEAT_API_KEY

T = TypeVar("T")

VERSION_MAX = 1
RETRY_S = 0.1
ABSENT = frozenset({kafka_errors.GroupIdNotFoundError.errno})
COORDINATOR_MOVED = (
    kafka_errors.CoordinatorLoadInProgressError,
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.NotCoordinatorError,
)
_MOVED = frozenset(error.errno for error in COORDINATOR_MOVED)
_ABSENT_STATE = "Dead"


class StreamsAdmin(Admin):
    """Sends a request to the coordinator of a group."""

    def ask_coordinator(self, group: str, call: _Call) -> _Answer:
        """Return the answer. Raises kafka-python's errors."""
        answer: _Answer = self._manager.run(self._ask, group, call)
        return answer

    def commit(self, group: str, request: OffsetCommitRequest) -> None:
        """Commit offsets. Raises ``CommitRefused``, ``PartitionsAbsent``, and kafka-python's errors."""
        check_commit(self._manager.run(self._ask, group, request))

    def version_max(self, api_key: int) -> int:
        """Return the newest version of a request that the brokers know, as of the first connection; -1 for none.

        The public ``api_versions`` fails at requests that kafka-python does not know.
        """
        known: Mapping[int, tuple[int, int]] = self._manager.broker_version_data.api_versions
        return known.get(api_key, (-1, -1))[1]

    def forget_coordinator(self, group: str) -> None:
        """Have the coordinator looked up again: kafka-python keeps it for ever."""
        self._manager.cluster._coordinators.pop((CoordinatorType.GROUP, group), None)  # noqa: SLF001

    async def _ask(self, group: str, call: _Call | OffsetCommitRequest) -> Any:
        coordinator = await self._find_coordinator_id(group)
        return await self._manager.send(call, node_id=coordinator)


class StreamsCoordinator:
    """Asks the coordinator of a group. For one thread."""

    def __init__(self, admin: StreamsAdmin) -> None:
        self._admin = admin

    def heartbeat(self, request: StreamsHeartbeatRequest) -> StreamsHeartbeatResponse:
        """Send one heartbeat and return the answer, whatever its error code is.

        An answer that the coordinator has moved makes the next heartbeat look for it. Raises ``BrokerUnavailable``,
        ``BrokerError``, ``MalformedUserData``.
        """
        with translated(f"heartbeat in group {request.group_id}"):
            try:
                answer = self._admin.ask_coordinator(
                    request.group_id,
                    _Call(
                        HEARTBEAT_API_KEY,
                        "StreamsGroupHeartbeat",
                        lambda version: encode_streams_heartbeat_request(request.as_taken_in(version), version),
                        STATIC_MEMBERS_VERSION if request.instance_id is not None else 0,
                    ),
                )
            except kafka_errors.IncompatibleBrokerVersion as cause:
                return _refused(kafka_errors.UnsupportedVersionError.errno, str(cause))
            except kafka_errors.KafkaError:
                self._admin.forget_coordinator(request.group_id)
                raise
        response = decode_streams_heartbeat_response(answer.body, answer.version)
        if response.error_code in _MOVED:
            self._admin.forget_coordinator(request.group_id)
        return response

    def heartbeat_version(self) -> int:
        """Return the newest version of heartbeats that the brokers know; -1 if they have no streams groups."""
        return self._admin.version_max(HEARTBEAT_API_KEY)

    def describe(self, group: str, timeout_s: float) -> DescribedStreamsGroup | None:
        """Return the group, or ``None`` where there is none of that name; raises as ``describe_streams_group``."""
        return describe_streams_group(self._admin, group, timeout_s)

    def settings(self, group: str) -> dict[str, str]:
        """Return the brokers' settings for a group. Raises ``BrokerUnavailable``, ``BrokerError``."""
        return group_settings(self._admin, group)

    def commit(
        self,
        group: str,
        member: MemberId,
        offsets: Mapping[TopicPartition, int],
        metadata: Mapping[TopicPartition, str],
    ) -> None:
        """Ask once to commit next offsets, with their ``metadata``; ``member.generation`` is the member's epoch.

        Raises ``CommitDeferred`` where the epoch is not the coordinator's, ``PartitionsAbsent`` where the brokers do
        not know partitions, ``CommitRefused`` where the group does not know the member, ``BrokerUnavailable`` without
        an answer, ``BrokerError``.
        """
        with translated("commit offsets"):
            try:
                self._admin.commit(group, commit_request(group, member, offsets, metadata))
            except kafka_errors.RetriableError:
                self._admin.forget_coordinator(group)
                raise


def _refused(error_code: int, error_message: str) -> StreamsHeartbeatResponse:
    """Return the answer of brokers that do not know the request: that of others which have streams groups off."""
    return StreamsHeartbeatResponse(0, error_code, error_message, "", 0, 0, 0, 0)


@contextmanager
def streams_coordinator(
    bootstrap_servers: str, client: Mapping[str, str] | None = None, timeout_s: float = 10.0
) -> Iterator[StreamsCoordinator]:
    """Yield a sender of heartbeats for the block. Raises ``BrokerUnavailable`` if no broker answers in time."""
    with connected(StreamsAdmin, bootstrap_servers, client or {}, timeout_s) as admin:
        yield StreamsCoordinator(admin)


def ask_while_moving(admin: StreamsAdmin, group: str, timeout_s: float, doing: str, ask: Callable[[], T]) -> T:
    """Return what ``ask`` returns; ask again while the coordinator moves or loads, for ``timeout_s`` at most.

    A cluster without groups first creates and loads its topic. A coordinator that did not answer is forgotten, so this
    or the next question looks it up. Raises ``BrokerUnavailable``, ``BrokerError``.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        with translated(doing):
            try:
                return ask()
            except kafka_errors.RetriableError as cause:
                admin.forget_coordinator(group)
                if not isinstance(cause, COORDINATOR_MOVED) or time.monotonic() >= deadline:
                    raise
        threading.Event().wait(RETRY_S)


def describe_streams_group(admin: StreamsAdmin, group: str, timeout_s: float) -> DescribedStreamsGroup | None:
    """Return the group, or ``None`` where the brokers have no streams group of that name.

    Raises ``BrokerUnavailable``, ``BrokerError``, ``MalformedUserData``.
    """
    return ask_while_moving(
        admin, group, timeout_s, f"describe streams group {group}", lambda: _described(admin, group)
    )


def _described(admin: StreamsAdmin, group: str) -> DescribedStreamsGroup | None:
    """Ask once. Raises kafka-python's errors."""
    request = StreamsDescribeRequest((group,))
    call = _Call(
        DESCRIBE_API_KEY, "StreamsGroupDescribe", lambda version: encode_streams_describe_request(request, version)
    )
    answer = admin.ask_coordinator(group, call)
    described = decode_streams_describe_response(answer.body, answer.version).groups[0]
    if described.error_code in ABSENT or described.group_state == _ABSENT_STATE:
        return None
    if described.error_code:
        raise kafka_errors.for_code(described.error_code)(described.error_message)
    return described


@dataclass(frozen=True, slots=True)
class _Answer:
    """The body of a response, in the version of its request."""

    version: int
    body: bytes

    @property
    def throttle_time_ms(self) -> int:
        """Return how long the broker asks the client to wait; it is the first field of both responses."""
        (throttle_ms,) = struct.unpack_from(">i", self.body)
        return int(throttle_ms)


class _Call:
    """One request in the form of kafka-python's, which chooses the version that both sides know."""

    min_version, max_version = 0, VERSION_MAX
    _max_version = VERSION_MAX

    def __init__(self, api_key: int, name: str, body: Callable[[int], bytes], min_version: int = 0) -> None:
        self._min_version = min_version
        self.API_KEY = api_key
        self.API_VERSION: int | None = None
        self.name = name
        self.header: _Header | None = None
        self._body = body
        self._client_id = ""

    def expect_response(self) -> bool:
        return True

    def with_header(self, correlation_id: int, client_id: str) -> None:
        assert self.API_VERSION is not None, "kafka-python sets the version first"
        self.header = _Header(self.API_KEY, self.API_VERSION, correlation_id)
        self._client_id = client_id

    def encode(self, **_form: bool) -> bytes:
        """Return the frame: length, request header 2, body."""
        assert self.header is not None, "kafka-python makes the header first"
        client_id = self._client_id.encode()
        numbers = struct.pack(
            ">hhih", self.API_KEY, self.header.api_version, self.header.correlation_id, len(client_id)
        )
        frame = numbers + client_id + b"\0" + self._body(self.header.api_version)
        return struct.pack(">i", len(frame)) + frame


@dataclass(frozen=True, slots=True)
class _Header:
    """What kafka-python keeps of a request until its response comes."""

    api_key: int
    api_version: int
    correlation_id: int

    def get_response_class(self) -> _AnswerType:
        return _AnswerType(self.api_version)


@dataclass(frozen=True, slots=True)
class _AnswerType:
    """How kafka-python reads a response: the header, then the body."""

    version: int

    def parse_header(self, buffer: BinaryIO) -> _AnswerHeader:
        """Read response header 1. Raises ``struct.error``."""
        (correlation_id,) = struct.unpack(">i", buffer.read(4))
        if buffer.read(1) != b"\0":
            raise struct.error("the response's header has tagged fields, and none exists")
        return _AnswerHeader(correlation_id)

    def decode(self, buffer: BinaryIO) -> _Answer:
        return _Answer(self.version, buffer.read())


@dataclass(frozen=True, slots=True)
class _AnswerHeader:
    correlation_id: int
