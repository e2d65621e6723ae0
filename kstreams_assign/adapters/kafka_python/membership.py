"""The membership, and nothing else.

The client joins the group, heartbeats from its own I/O thread and carries our commits; confluent-kafka moves the
records. Its fetcher is never started: only the coordinator is polled, so assigned partitions stay as if paused.

Three entry points are not public in kafka-python 3.0.12 and there is no public way to do without: ``_coordinator.poll``
(at most one join a call, so a revoked task can be closed before the next JoinGroup leaves; ``consumer.poll`` may send it
by itself), ``_coordinator.request_rejoin`` (KIP-568) and what ``lease`` watches. So are
``_coordinator._generation`` and ``_subscription``, by which a membership lost in the midst of a join is noticed,
``_cluster``, which knows the topics without asking for them, and ``_handle_heartbeat_response``, which alone learns that a static member is fenced.
``metadata``, ``assign`` and ``on_assignment`` run on the I/O thread that also heartbeats; what we do there never waits,
but for the leader's look-ups, which have a deadline while heartbeats are off anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from kafka import KafkaConsumer
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.errors import FencedInstanceIdError
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as KafkaTopicPartition

from kstreams_assign.adapters.kafka_python.faults import translated
from kstreams_assign.adapters.kafka_python.lease import Lease
from kstreams_assign.errors import CommitDeferred, CommitRefused
from kstreams_assign.group.values import JoinedMember, MemberAssignment, MemberId
from kstreams_assign.model import TopicPartition

_NO_METADATA: Mapping[TopicPartition, str] = MappingProxyType({})
SUBSCRIPTION_VERSION = 1  # with owned partitions (KIP-429); what Java 2.4 and later reads
RACK_VERSION = 3  # with the rack; whoever does not know it reads what it knows


class Protocolist(Protocol):
    """Who answers the client's questions. Every method runs on its I/O thread and must be quick."""

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

        Raises ``BrokerUnavailable`` where nobody answers, ``ConfigError`` for settings refused.
        """
        assignor = _StreamAssignor(protocol_name, protocolist, tuple(topics), rack)
        with translated("connect to the brokers"):
            self._consumer = KafkaConsumer(
                group_id=group_id,
                bootstrap_servers=bootstrap_servers.split(","),
                enable_auto_commit=False,
                partition_assignment_strategy=[assignor],
                **settings,
            )
            listener = _LostListener(protocolist)
            if pattern is None:
                self._consumer.subscribe(topics=assignor.topics, listener=listener)
            else:
                self._consumer.subscribe(pattern=rf"(?:{pattern})\Z", listener=listener)
            # A join before the topics are known would be repeated as soon as they are.
            for topic in assignor.topics:
                self._consumer.partitions_for_topic(topic)
        self._coordinator = self._consumer._coordinator
        self._lease = Lease(self._coordinator, settings["session_timeout_ms"] / 1000)
        self._protocolist = protocolist
        assignor.before_join = self._notice_loss
        self._fenced: FencedInstanceIdError | None = None
        self._notice_fencing()

    def _notice_loss(self) -> None:
        """Tell of a loss in the midst of a join: the client tells its listener only before a join's first try."""
        subscription = self._consumer._subscription
        if self._coordinator._generation.is_lost() and subscription.assigned_partitions():
            subscription.assign_from_subscribed([])
            self._protocolist.lost()

    def _notice_fencing(self) -> None:
        """A static member that is fenced: the client only stops its heartbeats then, and says nothing."""
        handle = self._coordinator._handle_heartbeat_response

        def handle_heartbeat_response(response: Any, send_time: float) -> None:
            try:
                handle(response, send_time)
            except FencedInstanceIdError as fenced:
                self._fenced = fenced
                raise

        self._coordinator._handle_heartbeat_response = handle_heartbeat_response

    def needs_join(self) -> bool:
        """Whether the broker, the topics' metadata or ``request_rejoin`` wants a rebalance."""
        return bool(self._coordinator.need_rejoin())

    def partition_counts(self) -> dict[str, int]:
        """How many partitions each subscribed topic has, as far as the client's metadata knows."""
        cluster = self._coordinator._cluster
        return {topic: len(cluster.partitions_for_topic(topic) or ()) for topic in self._consumer.subscription() or ()}

    def request_rejoin(self) -> None:
        self._coordinator.request_rejoin()

    def join(self, timeout_s: float) -> bool:
        """Send JoinGroup if there is need and wait for the assignment; False while it is still awaited."""
        with translated("join the group"):
            return bool(self._coordinator.poll(timeout_ms=timeout_s * 1000)) and not self.needs_join()

    def beat(self, *, alive: bool) -> None:
        """Tell the client that this member is ``alive``: it leaves the group by itself after ``max_poll_interval_ms`` without.

        Raises ``InstanceFenced`` once a heartbeat was refused so.
        """
        with translated("heartbeat"):
            if self._fenced is not None:
                raise self._fenced
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

    def member_id(self) -> str:
        return str(self._coordinator.group_metadata().member_id)

    def lease_left_s(self) -> float:
        """Seconds until the broker may have given this member's tasks away, counted from when the last answered heartbeat was sent.

        Negative: it may already have. While a join is under way the broker keeps the member, so the answer grows stale
        on the safe side.
        """
        return 0.0 if self._coordinator._generation.is_lost() else self._lease.left_s()

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        timeout_s: float,
        metadata: Mapping[TopicPartition, str] = _NO_METADATA,
    ) -> None:
        """Commit next offsets under this generation, each with its ``metadata`` if it has some, and wait for the answer.

        Raises ``CommitDeferred`` during a rebalance (nothing was sent), ``CommitRefused`` where the generation is
        over, ``BrokerUnavailable`` without an answer in time.
        """
        wanted = {
            KafkaTopicPartition(*p): OffsetAndMetadata(offset, metadata.get(p, ""), -1) for p, offset in offsets.items()
        }
        with translated("commit offsets"):
            self._consumer.commit(wanted, timeout_ms=timeout_s * 1000)

    def close(self, timeout_s: float, *, leave: bool) -> tuple[str, str | None] | None:
        """Disconnect, and leave the group or stay in it. The answer is who is to be taken out yet: (member id, instance id).

        The client itself takes out dynamic members alone, and where JoinGroup is on its way its LeaveGroup would wait behind it
        until the rebalance is over.
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


class _StreamAssignor(AbstractPartitionAssignor):  # type: ignore[misc]
    """The assignor's wire side: ConsumerProtocol there, our values here."""

    def __init__(self, protocol_name: str, protocolist: Protocolist, topics: tuple[str, ...], rack: str | None) -> None:
        self._name = protocol_name
        self._rack = rack
        self._protocolist = protocolist
        self.topics = list(topics)
        self.before_join: Callable[[], None] = lambda: None

    @property
    def name(self) -> str:
        return self._name

    def supported_protocols(self) -> list[RebalanceProtocol]:
        return [RebalanceProtocol.COOPERATIVE]

    def metadata(self, topics: Iterable[str]) -> Any:
        self.before_join()
        owned, user_data = self._protocolist.subscription()
        return ConsumerProtocolSubscription(
            version=SUBSCRIPTION_VERSION if self._rack is None else RACK_VERSION,
            rack_id=self._rack,
            topics=sorted(topics),
            user_data=user_data,
            owned_partitions=list(_by_topic(owned).items()),
        )

    def assign(self, cluster: Any, members: Iterable[Any]) -> dict[str, Any]:
        joined = [_joined(member) for member in members]
        topics = {topic for member in joined for topic in member.topics}
        counts = {topic: len(cluster.partitions_for_topic(topic) or ()) for topic in topics}
        answers = self._protocolist.lead(joined, counts)
        return {member: _assignment(answer) for member, answer in answers.items()}

    def on_assignment(self, assignment: Any, generation: int) -> None:
        partitions = [TopicPartition(*p) for p in assignment.partitions()]
        self._protocolist.assigned(generation, partitions, bytes(assignment.user_data or b""))


class _LostListener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Hears only of lost membership; assignments arrive through ``on_assignment``, which is never skipped."""

    def __init__(self, protocolist: Protocolist) -> None:
        self._protocolist = protocolist

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Nothing: what the assignment lacks is let go before the next join."""

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Nothing: not called when nothing was added."""

    def on_partitions_lost(self, _lost: Any) -> None:
        self._protocolist.lost()


def _joined(member: Any) -> JoinedMember:
    subscription = member.metadata
    owned = [TopicPartition(t.topic, p) for t in subscription.owned_partitions or () for p in t.partitions]
    return JoinedMember(
        member_id=member.member_id,
        topics=tuple(subscription.topics),
        owned=tuple(owned),
        user_data=bytes(subscription.user_data or b""),
        instance_id=member.group_instance_id,
        rack=getattr(subscription, "rack_id", None),
    )


def _assignment(answer: MemberAssignment) -> Any:
    partitions = list(_by_topic(answer.partitions).items())
    return ConsumerProtocolAssignment(
        version=SUBSCRIPTION_VERSION, assigned_partitions=partitions, user_data=answer.user_data
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics
