"""The membership, and nothing else.

The client joins the group, heartbeats from its own I/O thread and carries our commits; confluent-kafka moves the
records. Its fetcher is never started: only the coordinator is polled, so assigned partitions stay as if paused.

Three entry points are not public in kafka-python 3.0.12 and there is no public way to do without: ``_coordinator.poll``
(at most one join a call, so a revoked task can be closed before the next JoinGroup leaves; ``consumer.poll`` may send
it by itself), ``_coordinator.request_rejoin`` (KIP-568) and what ``lease`` watches. So are ``_coordinator._generation``
and ``_subscription``, by which a membership lost in the midst of a join is noticed, ``_cluster``, which knows the
topics without asking for them, ``_handle_heartbeat_response`` and ``_handle_find_coordinator_response``, which alone
learn that a static member is fenced or that the group may not be read,
``_send_offset_commit_request``, which is tried again in whatever generation is then the newest, and
``_handle_offset_commit_response``, which has it tried again where a partition does not exist.
``_perform_assignment`` and ``_on_join_complete_async`` get bytes that other members wrote, and the client's own decoder
ends the member at the first damage; so they are decoded here (``group.joining``), and the client gets bytes of ours.
``metadata``, ``assign`` and ``on_assignment`` run on the I/O thread that also heartbeats; what we do there never waits,
but for the leader's look-ups, which have a deadline while heartbeats are off anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Protocol

from kafka import KafkaConsumer
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    KafkaError,
    RebalanceInProgressError,
    RetriableError,
    UnknownError,
)
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as KafkaTopicPartition

from kstreams_assign.adapters.kafka_python.absent_partitions import refuse_absent, take_absent
from kstreams_assign.adapters.kafka_python.connections import closed_unless_made
from kstreams_assign.adapters.kafka_python.faults import group_refused, session_refused, translated
from kstreams_assign.adapters.kafka_python.join_results import finish_joins
from kstreams_assign.adapters.kafka_python.lease import WatchedLease
from kstreams_assign.adapters.kafka_python.retries import space_retries
from kstreams_assign.errors import CommitDeferred, CommitRefused
from kstreams_assign.group.joining import has_missed, read_given, read_member_or_damage
from kstreams_assign.group.values import JoinedMember, MemberAssignment, MemberId
from kstreams_assign.model import TopicPartition
from kstreams_assign.wire import (
    ConsumerAssignment,
    ConsumerSubscription,
    encode_consumer_assignment,
    encode_consumer_subscription,
)

_NO_METADATA: Mapping[TopicPartition, str] = MappingProxyType({})
SUBSCRIPTION_VERSION = 1  # with owned partitions (KIP-429); what Java 2.4 and later reads
RACK_VERSION = 3  # with the rack; older readers ignore it
METADATA_TIMEOUT_S = 10.0
METADATA_TRIES = 3
"""The request under way may name no topics yet, and a topic may not exist."""


class CoordinatorFailed(RetriableError):  # type: ignore[misc]
    """The coordinator answered with an error that has no meaning of its own (``UNKNOWN_SERVER_ERROR``)."""


class Protocolist(Protocol):
    """Answers the client's questions. Every method runs on its I/O thread and must be quick."""

    def subscription(self) -> tuple[Sequence[TopicPartition], bytes]:
        """Owned partitions and user-data, asked for each JoinGroup."""
        ...

    def lead(self, members: Sequence[JoinedMember], counts: Mapping[str, int]) -> Mapping[str, MemberAssignment]:
        """Assign for the whole group; bounded in time."""
        ...

    def assigned(self, generation: int, partitions: Sequence[TopicPartition], user_data: bytes) -> None: ...

    def lost(self) -> None:
        """The group went on without us; what we owned is owned by others."""
        ...

    def turn_soon(self) -> None:
        """The client has learned of a rebalance or a loss: ``needs_join`` or ``beat`` has another answer now."""
        ...


class _Consumer(KafkaConsumer):  # type: ignore[misc]
    """kafka-python's consumer, without the thread and the sockets that it leaves behind when it cannot be made."""

    def __init__(self, **settings: Any) -> None:
        with closed_unless_made(self):
            super().__init__(**settings)


class _Offsets(dict[KafkaTopicPartition, OffsetAndMetadata]):
    """The offsets of one commit. ``losses``: how often the membership was lost when the commit began."""

    def __init__(self, offsets: Mapping[KafkaTopicPartition, OffsetAndMetadata], losses: int) -> None:
        super().__init__(offsets)
        self.losses = losses


class GroupClient:
    """One member's connection to its group. ``join``, ``beat`` and ``close`` belong to one thread; the rest to any."""

    def __init__(
        self,
        *,
        group_id: str,
        bootstrap_servers: str,
        topics: Iterable[str],
        protocol_name: str,
        protocolist: Protocolist,
        settings: Mapping[str, Any],
        rack: str | None = None,
        pattern: str | None = None,
    ) -> None:
        """Connect. ``pattern`` goes before ``topics``: every topic whose whole name matches.

        Raises ``BrokerUnavailable`` if no broker answers, ``ConfigError`` for settings refused.
        """
        assignor = _StreamAssignor(protocol_name, protocolist, tuple(topics), rack)
        self._protocolist = protocolist
        self._losses = 0
        self._updates = 0
        """How many times the client has read the topics' metadata."""
        self._counted: tuple[int, AbstractSet[str], dict[str, int]] = -1, frozenset(), {}
        """The partitions of each topic, with the number of updates and the topics that they were counted at."""
        with translated("connect to the brokers"):
            self._consumer = _Consumer(
                group_id=group_id,
                bootstrap_servers=bootstrap_servers.split(","),
                enable_auto_commit=False,
                partition_assignment_strategy=[assignor],
                **settings,
            )
            self._coordinator = self._consumer._coordinator
            try:
                self._subscribe(assignor, pattern)
            except BaseException:
                self._consumer.close(autocommit=False, timeout_ms=0)
                raise
        self._lease = WatchedLease(
            self._coordinator, settings["session_timeout_ms"] / 1000, settings["max_poll_interval_ms"] / 1000
        )
        self._refusals = {**session_refused(settings["session_timeout_ms"]), **group_refused(group_id)}
        _read_foreign_bytes(self._coordinator, assignor)
        self._failures: dict[str, CoordinatorFailed] = {}
        self._retry_where_the_coordinator_fails()
        space_retries(self._coordinator)
        finish_joins(self._coordinator)
        self._join_again_after_a_missed_generation()
        assignor.before_join = self._notice_loss
        self._refusal: KafkaError | None = None
        self._notice_refusals()
        self._end_commits_with_the_membership()
        self._leave_out_absent_partitions()

    def _subscribe(self, assignor: _StreamAssignor, pattern: str | None) -> None:
        manager, cluster = self._coordinator._manager, self._coordinator._cluster
        cluster.config["allow_auto_create_topics"] = False  # or a broker creates an internal topic with one partition
        # On the client's I/O thread: a listener added while that thread calls the others ends its look-ups for good.
        manager.run(cluster.add_listener, self._metadata_read)
        listener = _LostListener(self._lose)
        if pattern is None:
            self._consumer.subscribe(topics=assignor.topics, listener=listener)
        else:
            self._consumer.subscribe(pattern=rf"(?:{pattern})\Z", listener=listener)
        self._await_metadata(assignor.topics)

    def _await_metadata(self, topics: Iterable[str]) -> None:
        """Wait for the topics' metadata: a join before it would be repeated as soon as it is there.

        ``partitions_for_topic`` of the consumer would ask for all topics of the brokers, to know these.
        """
        manager, cluster = self._coordinator._manager, self._coordinator._cluster
        for _ in range(METADATA_TRIES):
            if all(cluster.partitions_for_topic(topic) is not None for topic in topics):
                return
            with suppress(KafkaError):  # a broker that does not answer is for the join to report
                manager.run(manager.wait_for, cluster.request_update(), METADATA_TIMEOUT_S * 1000)

    def _notice_loss(self) -> None:
        """Report a membership lost during a join: the client calls its listener only before a join's first try."""
        subscription = self._consumer._subscription
        if self._coordinator._generation.is_lost() and subscription.assigned_partitions():
            subscription.assign_from_subscribed([])
            self._lose()

    def _join_again_after_a_missed_generation(self) -> None:
        """See that a static member that missed a generation loses its tasks, and joins without them."""
        coordinator, process = self._coordinator, self._coordinator._process_join_group_response
        if coordinator.group_instance_id is None:
            return

        def process_join_group_response(response: Any, send_time: float) -> Any:
            missed = has_missed(coordinator._generation.generation_id, response.generation_id)
            if missed and self._consumer._subscription.assigned_partitions():
                coordinator.reset_generation(response.member_id)  # so the next JoinGroup reports the loss
                raise RebalanceInProgressError("a generation began without this member")
            return process(response, send_time)

        coordinator._process_join_group_response = process_join_group_response

    def _lose(self) -> None:
        self._losses += 1
        self._protocolist.lost()

    def _end_commits_with_the_membership(self) -> None:
        """See that no commit is tried again in a membership that began after it: its tasks are others' by then."""
        send = self._coordinator._send_offset_commit_request

        async def send_offset_commit_request(offsets: Any) -> None:
            if isinstance(offsets, _Offsets) and offsets.losses != self._losses:
                raise CommitFailedError("the membership was lost after the commit had begun")
            await send(offsets)

        self._coordinator._send_offset_commit_request = send_offset_commit_request

    def _leave_out_absent_partitions(self) -> None:
        """See that no commit is tried again because of partitions that do not exist: it is done for all others."""
        handle = self._coordinator._handle_offset_commit_response

        def handle_offset_commit_response(offsets: Any, send_time: float, response: Any) -> None:
            absent = take_absent(response)
            handle(offsets, send_time, response)  # raises for other errors
            refuse_absent(absent)

        self._coordinator._handle_offset_commit_response = handle_offset_commit_response

    def _notice_refusals(self) -> None:
        """Report each at once: a rebalance, a generation that is over, and a refusal, which the client only logs."""
        coordinator = self._coordinator

        def keeping(handle: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any) -> Any:
                try:
                    return handle(*arguments)
                except (FencedInstanceIdError, GroupAuthorizationFailedError) as refusal:
                    self._refusal = refusal
                    self._protocolist.turn_soon()
                    raise

            return call

        def waking(change: Callable[..., None]) -> Callable[..., None]:
            def call(*arguments: Any, **named: Any) -> None:
                change(*arguments, **named)
                self._protocolist.turn_soon()

            return call

        coordinator._handle_heartbeat_response = keeping(coordinator._handle_heartbeat_response)
        coordinator._handle_find_coordinator_response = keeping(coordinator._handle_find_coordinator_response)
        coordinator.request_rejoin = waking(coordinator.request_rejoin)
        coordinator.reset_generation = waking(coordinator.reset_generation)

    def _retry_where_the_coordinator_fails(self) -> None:
        """Keep the client from giving up at an unexpected error of the coordinator."""

        def retrying(process: Callable[[Any, float], Any], possible_cause: str) -> Callable[[Any, float], Any]:
            def call(response: Any, send_time: float) -> Any:
                try:
                    return process(response, send_time)
                except UnknownError as cause:
                    self._failures["join"] = CoordinatorFailed(
                        f"the group's coordinator failed, and its log says why ({possible_cause} can be the cause)"
                    )
                    raise self._failures["join"] from cause

            return call

        coordinator = self._coordinator
        coordinator._process_join_group_response = retrying(
            coordinator._process_join_group_response, "damaged metadata of another member"
        )
        coordinator._process_sync_group_response = retrying(
            coordinator._process_sync_group_response, "a record of the group above max.message.bytes"
        )

    def needs_join(self) -> bool:
        """Whether the broker, the topics' metadata or ``request_rejoin`` wants a rebalance."""
        return bool(self._coordinator.need_rejoin())

    def partition_counts(self) -> Mapping[str, int]:
        """How many partitions each subscribed topic has, as far as the client's metadata knows."""
        cluster, topics = self._coordinator._cluster, self._consumer.subscription() or frozenset()
        updates, known, counts = self._counted
        if (updates, known) != (self._updates, topics):  # the client copies all partitions of a topic to count them
            updates = self._updates
            counts = {topic: len(cluster.partitions_for_topic(topic) or ()) for topic in topics}
            self._counted = updates, topics, counts
        return counts

    def _metadata_read(self, _cluster: object) -> None:
        self._updates += 1

    def request_rejoin(self) -> None:
        self._coordinator.request_rejoin()

    def join(self, timeout_s: float) -> bool:
        """Send JoinGroup if there is need and wait for the assignment; False while it is still awaited.

        Raises ``BrokerUnavailable`` where the coordinator failed; call it again then.
        """
        with translated("join the group", self._refusals):
            self._failures.pop("join", None)
            joined = bool(self._coordinator.poll(timeout_ms=timeout_s * 1000)) and not self.needs_join()
            if not joined and (failure := self._failures.pop("join", None)) is not None:
                raise failure
        return joined

    def beat(self, *, alive: bool) -> None:
        """Report to the client whether this member is ``alive``.

        Without such a report the client leaves the group after ``max_poll_interval_ms``.

        Raises ``InstanceFenced`` or ``BrokerError`` once the coordinator has refused this member so.
        """
        with translated("heartbeat", self._refusals):
            if self._refusal is not None:
                raise self._refusal
            if alive:
                self._coordinator.poll_heartbeat()

    def joined(self) -> bool:
        """Whether this member is in a stable generation as far as it knows."""
        return self._coordinator.generation_if_stable() is not None

    def member(self) -> MemberId:
        """The membership that a commit of now belongs to.

        Raises ``CommitDeferred`` during a rebalance, ``CommitRefused`` where there is no generation.
        """
        generation = self._coordinator.generation_if_stable()
        if generation is not None:
            return MemberId(generation.generation_id, generation.member_id, self._coordinator.group_instance_id)
        if self._coordinator.rebalance_in_progress():
            raise CommitDeferred("commit offsets: a rebalance is under way")
        raise CommitRefused("commit offsets: this member is in no generation")

    def transaction_member(self) -> MemberId:
        """Return the membership under which a transaction commits its offsets now, also while the group rebalances.

        The coordinator takes such offsets in each state of a group, from members of its current generation (Kafka:
        ``ClassicGroup.validateOffsetCommit``). Raises ``CommitRefused`` where there is no generation.
        """
        now = self._coordinator.group_metadata()
        if now.generation_id < 0 or not now.member_id:
            raise CommitRefused("commit offsets: this member is in no generation")
        return MemberId(now.generation_id, now.member_id, now.group_instance_id)

    def member_id(self) -> str:
        return str(self._coordinator.group_metadata().member_id)

    def lease_left_s(self) -> float:
        """Seconds until the broker may give this member's tasks away; negative once it may have.

        It ends a session after the newest answered heartbeat was sent, or ``max_poll_interval_ms`` after the newest
        that was answered without a rebalance. While a join is under way the broker keeps the member, so the result is
        too small at worst.
        """
        return 0.0 if self._coordinator._generation.is_lost() else self._lease.left_s()

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        timeout_s: float,
        metadata: Mapping[TopicPartition, str] = _NO_METADATA,
    ) -> None:
        """Commit next offsets under this generation, with their ``metadata``, and wait for the answer.

        Raises ``CommitDeferred`` during a rebalance (nothing was sent), ``PartitionsAbsent`` where the brokers do not
        know partitions, ``CommitRefused`` where the generation is over, ``BrokerUnavailable`` without an answer in
        time.
        """
        wanted = {
            KafkaTopicPartition(*p): OffsetAndMetadata(offset, metadata.get(p, ""), -1) for p, offset in offsets.items()
        }
        with translated("commit offsets", self._refusals):
            self._consumer.commit(_Offsets(wanted, self._losses), timeout_ms=timeout_s * 1000)

    def close(self, timeout_s: float, *, leave: bool) -> tuple[str, str | None] | None:
        """Disconnect, and leave the group or stay in it.

        Returns the member that is still to be removed: (member id, instance id).

        The client itself takes out dynamic members alone, and where JoinGroup is on its way its LeaveGroup would wait
        behind it until the rebalance is over.
        """
        member_id, coordinator = self.member_id(), self._coordinator
        by_itself = (
            leave and coordinator.is_dynamic_member() and self.joined() and not coordinator.coordinator_unknown()
        )
        if not by_itself:
            coordinator.reset_generation()  # without a member id the client sends no LeaveGroup
        with translated("leave the group"):
            self._consumer.close(autocommit=False, timeout_ms=timeout_s * 1000)
        return (member_id, coordinator.group_instance_id) if leave and not by_itself and member_id else None


def _read_foreign_bytes(coordinator: Any, assignor: _StreamAssignor) -> None:
    """Decode what other members wrote before the client does, and give the client bytes that it can read."""
    perform, complete = coordinator._perform_assignment, coordinator._on_join_complete_async

    def perform_assignment(leader_id: str, protocol_name: str, members: Sequence[Any]) -> Any:
        assignor.joined = [
            read_member_or_damage(member.member_id, bytes(member.metadata), member.group_instance_id)
            for member in members
        ]
        for member in members:
            member.metadata = _NO_TOPICS  # the client watches this member's own topics in any case
        return perform(leader_id, protocol_name, members)

    async def on_join_complete(generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        given = read_given(bytes(assignment))
        subscribed = coordinator._subscription
        if not subscribed.subscribed_pattern and any(
            partition.topic not in subscribed.subscription for partition in given.assigned_partitions
        ):  # the client would join again, and pass on nothing
            assignor.assigned(generation, given.assigned_partitions, given.user_data)
        await complete(generation, member_id, protocol, _assignment(given.assigned_partitions, given.user_data))

    coordinator._perform_assignment, coordinator._on_join_complete_async = perform_assignment, on_join_complete


class _StreamAssignor(AbstractPartitionAssignor):  # type: ignore[misc]
    """The assignor's wire side: bytes of the consumer protocol there, our values here."""

    def __init__(self, protocol_name: str, protocolist: Protocolist, topics: tuple[str, ...], rack: str | None) -> None:
        self._name = protocol_name
        self._rack = rack
        self._protocolist = protocolist
        self.topics = list(topics)
        self.joined: list[JoinedMember] = []
        """The members of the round that this one leads."""
        self.before_join: Callable[[], None] = lambda: None

    @property
    def name(self) -> str:
        return self._name

    def supported_protocols(self) -> list[RebalanceProtocol]:
        return [RebalanceProtocol.COOPERATIVE]

    def metadata(self, topics: Iterable[str]) -> bytes:
        self.before_join()
        owned, user_data = self._protocolist.subscription()
        return encode_consumer_subscription(
            ConsumerSubscription(
                version=SUBSCRIPTION_VERSION if self._rack is None else RACK_VERSION,
                rack_id=self._rack,
                topics=tuple(sorted(topics)),
                user_data=user_data,
                owned_partitions=tuple(sorted(owned)),
            )
        )

    def assign(self, cluster: Any, members: Iterable[Any]) -> dict[str, bytes]:  # noqa: ARG002  # see ``joined``
        topics = {topic for member in self.joined for topic in member.topics}
        counts = {topic: len(cluster.partitions_for_topic(topic) or ()) for topic in topics}
        answers = self._protocolist.lead(self.joined, counts)
        return {member: _assignment(sorted(answer.partitions), answer.user_data) for member, answer in answers.items()}

    def on_assignment(self, assignment: Any, generation: int) -> None:
        self.assigned(generation, assignment.partitions(), assignment.user_data)

    def assigned(self, generation: int, partitions: Iterable[Any], user_data: bytes | None) -> None:
        """Pass an assignment on. Raises what refuses it."""
        self._protocolist.assigned(generation, [TopicPartition(*p) for p in partitions], bytes(user_data or b""))


class _LostListener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Hears only of lost membership; assignments arrive through ``on_assignment``, which is never skipped."""

    def __init__(self, lose: Callable[[], None]) -> None:
        self._lose = lose

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Nothing: what the assignment lacks is let go before the next join."""

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Nothing: not called when nothing was added."""

    def on_partitions_lost(self, _lost: Any) -> None:
        self._lose()


_NO_TOPICS = encode_consumer_subscription(ConsumerSubscription(version=0, topics=()))


def _assignment(partitions: Iterable[TopicPartition], user_data: bytes | None) -> bytes:
    return encode_consumer_assignment(ConsumerAssignment(SUBSCRIPTION_VERSION, tuple(partitions), user_data))
