"""Topics and their offsets: what the leader and the readers ask the cluster.

What must not live here: which topics a topology needs. The idea: each question is one request for all that it asks
about, asked again while a partition has no leader, until its deadline.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import ConfigResource, ConfigSource, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from kstreams_assign.adapters.confluent.bounds import FIRST, LAST, LOOK_UP_S, ask_each_leader, list_offsets
from kstreams_assign.adapters.confluent.faults import ABSENT, FAILED_READS, PASSING, fault, translating
from kstreams_assign.adapters.confluent.first_contact import FirstContact, attempts, never, seconds_left
from kstreams_assign.errors import BrokerError, BrokerUnavailable
from kstreams_assign.model import TopicPartition
from kstreams_assign.topology.internal import refuse_wrong_counts

K = TypeVar("K", bound=Hashable)

Ask = Callable[[float], Mapping[K, Future[Any]]]
"""Sends a request that may take so many seconds; a future for each thing it asks about."""

_NONE: frozenset[int] = frozenset()
_OWN: int = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
_EXISTS = frozenset({KafkaError.TOPIC_ALREADY_EXISTS})
_INVALID = frozenset({KafkaError.INVALID_CONFIG})
_NOT_ALLOWED = frozenset({KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_TIMED_OUT: int = KafkaError._TIMED_OUT  # noqa: SLF001 - librdkafka's own code

_LEARN_S = 2.0
"""How long a broker may take to learn of a new topic or partition. A member whose state is of a topic that was deleted
must not wait much longer before it joins."""
_LEARN_RETRY_S = 0.1

_POLL_S = 0.02
_GRACE_S = LOOK_UP_S
"""librdkafka ends a request at its deadline; this much later we no longer wait for it to say so."""


class ClusterAdmin:
    """Questions to the cluster. May be shared by threads; holds nothing between questions, so there is no close.

    The first question raises ``ConfigError`` if the brokers refuse this client.
    """

    def __init__(self, bootstrap_servers: str, client: Mapping[str, str] | None = None) -> None:
        self._contact = FirstContact(bootstrap_servers, client)
        self._admin = self._contact.admin

    def reach(self, timeout_s: float, given_up: Callable[[], bool] = never) -> bool:
        """Wait until a broker answers, and return True; return False once ``given_up`` returns True.

        It is called at least every 0.1 s. Raises ``BrokerUnavailable``, ``ConfigError``, each with the settings to look
        at.
        """
        return self._contact.make(time.monotonic() + timeout_s, given_up)

    def end_offsets(self, partitions: Iterable[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        """High watermarks. Raises ``BrokerUnavailable``, also for a partition that no broker knows within 2 s."""
        deadline = time.monotonic() + timeout_s
        return self._offsets(self._all_existing(partitions, deadline), LAST, deadline)

    def stable_end_offsets(self, partitions: Iterable[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        """Last stable offsets: where readers of committed records end. Raises ``BrokerUnavailable``.

        The partitions must exist.
        """
        deadline = time.monotonic() + timeout_s
        return self._offsets(partitions, LAST, deadline, IsolationLevel.READ_COMMITTED)

    def start_offsets(self, partitions: Iterable[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        """The first offsets that the log still holds; raises as ``end_offsets`` does."""
        deadline = time.monotonic() + timeout_s
        return self._offsets(self._all_existing(partitions, deadline), FIRST, deadline)

    def bounds(self, partitions: Iterable[TopicPartition], timeout_s: float) -> dict[TopicPartition, tuple[int, int]]:
        """First offset and high watermark; partitions that do not exist are left out. Raises ``BrokerUnavailable``."""
        deadline = time.monotonic() + timeout_s
        wanted = list(partitions)
        existing = _existing(wanted, self._described((partition.topic for partition in wanted), timeout_s))
        first = self._offsets(existing, FIRST, deadline)
        last = self._offsets(existing, LAST, deadline)
        return {partition: (first[partition], last[partition]) for partition in existing}

    def bounds_and_ids(
        self, partitions: Iterable[TopicPartition], timeout_s: float, leader_timeout_s: float
    ) -> tuple[dict[TopicPartition, tuple[int, int] | None], dict[str, str]]:
        """Ask once for bounds; None for a partition whose leader does not answer in ``leader_timeout_s``.

        Also returns the ids of the topics: a topic that was deleted and created again has another id.
        """
        wanted = list(partitions)
        topics = self._described((partition.topic for partition in wanted), timeout_s)
        existing = _existing(wanted, topics)
        bounds = ask_each_leader(self._admin, existing, topics, leader_timeout_s)
        if len(bounds) < len(existing):
            self._forget_leaders(leader_timeout_s)
        ids = {name: str(topic.topic_id) for name, topic in topics.items()}
        return {partition: bounds.get(partition) for partition in existing}, ids

    def topics(self, timeout_s: float) -> dict[str, int]:
        """Every topic that may be seen, with how many partitions it has. Raises ``BrokerUnavailable``."""
        deadline = time.monotonic() + timeout_s
        self._contact.make(deadline)
        with translating("list topics"):
            listed = self._admin.list_topics(timeout=seconds_left(deadline))
        return {name: len(topic.partitions) for name, topic in listed.topics.items()}

    def topic_id(self, topic: str, timeout_s: float) -> str:
        """Return the topic's id: one that was deleted and created again has another. Empty if there is none.

        Raises ``BrokerUnavailable``, ``BrokerError``.
        """
        described = self._described([topic], timeout_s).get(topic)
        return "" if described is None else str(described.topic_id)

    def groups(self, timeout_s: float) -> frozenset[str]:
        """Return the ids of all groups of consumers, those of classic Kafka Streams among them.

        Raises ``BrokerUnavailable``, ``BrokerError``.
        """
        deadline = time.monotonic() + timeout_s
        self._contact.make(deadline)
        with translating("list groups"):
            listed = self._admin.list_consumer_groups(request_timeout=seconds_left(deadline)).result()
        return frozenset(group.group_id for group in listed.valid)

    def topic_setting(self, topic: str, key: str, timeout_s: float) -> str | None:
        """What a setting of a topic is now, None if there is none of that name.

        Raises ``BrokerUnavailable``, ``BrokerError``.
        """
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)

        def ask(left_s: float) -> Mapping[ConfigResource, Future[Any]]:
            return self._admin.describe_configs([resource], request_timeout=left_s)

        entry = self._answers("describe settings of", ask, time.monotonic() + timeout_s)[resource].get(key)
        return None if entry is None else str(entry.value)

    def broker_settings(self, key: str, timeout_s: float) -> frozenset[str]:
        """Return the values that the brokers have for a setting.

        Empty without the right to describe the cluster's settings. Raises ``BrokerUnavailable``, ``BrokerError``.
        """
        deadline = time.monotonic() + timeout_s
        self._contact.make(deadline)
        with translating("list brokers"):
            brokers = self._admin.list_topics(timeout=seconds_left(deadline)).brokers
        resources = [ConfigResource(ConfigResource.Type.BROKER, str(number)) for number in brokers]

        def ask(left_s: float) -> Mapping[ConfigResource, Future[Any]]:
            # librdkafka takes one broker a call.
            calls = [self._admin.describe_configs([resource], request_timeout=left_s) for resource in resources]
            return {resource: answer for call in calls for resource, answer in call.items()}

        answers = self._answers("describe settings of", ask, deadline, tolerated=_NOT_ALLOWED)
        return frozenset(str(entries[key].value) for entries in answers.values() if key in entries)

    def settings_of(self, topics: Iterable[str], key: str, timeout_s: float) -> dict[str, str | None]:
        """What a setting of each topic is now; topics that do not exist are left out.

        Raises ``BrokerUnavailable``, ``BrokerError``.
        """
        settings = self._settings(topics, timeout_s)
        return {topic: entries[key].value for topic, entries in settings.items() if key in entries}

    def own_settings(self, topics: Iterable[str], timeout_s: float) -> dict[str, dict[str, str | None]]:
        """What was set for each topic alone, without the brokers' defaults; topics that do not exist are left out.

        Raises ``BrokerUnavailable``, ``BrokerError``.
        """
        return {
            topic: {key: entry.value for key, entry in entries.items() if entry.source == _OWN}
            for topic, entries in self._settings(topics, timeout_s).items()
        }

    def _settings(self, topics: Iterable[str], timeout_s: float) -> dict[str, Any]:
        """The client's entries of those that exist."""
        resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
        if not resources:
            return {}

        def ask(left_s: float) -> Mapping[ConfigResource, Future[Any]]:
            return self._admin.describe_configs(resources, request_timeout=left_s)

        answers = self._answers("describe settings of", ask, time.monotonic() + timeout_s, tolerated=ABSENT)
        return {resource.name: entries for resource, entries in answers.items()}

    def partition_counts(self, topics: Iterable[str], timeout_s: float) -> dict[str, int]:
        """Return each topic's number of partitions, without topics that do not exist. Raises ``BrokerUnavailable``."""
        return {name: len(topic.partitions) for name, topic in self._described(topics, timeout_s).items()}

    def replica_racks(self, topics: Iterable[str], timeout_s: float) -> dict[TopicPartition, frozenset[str]]:
        """Return the racks (``broker.rack``) of each partition's replicas. Raises ``BrokerUnavailable``.

        Partitions without replicas, or with a replica that has no rack, are left out.
        """
        racks = {
            TopicPartition(name, partition.id): [node.rack for node in partition.replicas]
            for name, topic in self._described(topics, timeout_s).items()
            for partition in topic.partitions
        }
        return {partition: frozenset(replicas) for partition, replicas in racks.items() if replicas and all(replicas)}

    def _described(self, topics: Iterable[str], timeout_s: float) -> dict[str, Any]:
        """The client's descriptions of those that exist."""
        names = sorted(set(topics))
        if not names:
            return {}

        def ask(left_s: float) -> Mapping[str, Future[Any]]:
            return self._admin.describe_topics(TopicCollection(names), request_timeout=left_s)

        return self._answers("describe topic", ask, time.monotonic() + timeout_s, tolerated=ABSENT)

    def create_topics(
        self,
        topics: Mapping[str, int],
        timeout_s: float,
        *,
        configs: Mapping[str, Mapping[str, str]] | None = None,
        replication_factor: int = -1,
    ) -> None:
        """Make the topics (name -> partitions) that do not exist; returns once each of their partitions has a leader.

        ``configs`` are topic settings by name (a changelog's: ``cleanup.policy=compact``); a replication factor of -1
        is the broker's default. Raises ``TopologyMismatch`` for a topic that exists with another number of partitions,
        ``BrokerUnavailable``, ``BrokerError`` for what the broker refuses.
        """
        deadline = time.monotonic() + timeout_s
        there = self.partition_counts(topics, timeout_s)
        refuse_wrong_counts(topics, there)
        missing = {name: count for name, count in topics.items() if name not in there}
        if missing:
            self._create(missing, configs or {}, replication_factor, deadline)
            # Another member may have been quicker, with another count.
            refuse_wrong_counts(topics, self.partition_counts(topics, seconds_left(deadline)))

    def refused_settings(self, settings: Mapping[str, Mapping[str, str]], timeout_s: float) -> dict[str, str]:
        """Return why the brokers would not create these topics with their settings; creates nothing.

        Topics that exist, and those with valid settings, are left out. Raises ``BrokerUnavailable``, and
        ``BrokerError`` if something else than a setting is in the way, such as missing rights.
        """
        new = [NewTopic(name, 1, config=dict(config)) for name, config in settings.items()]
        self._contact.make(time.monotonic() + timeout_s)
        _, failed = _gather(self._admin.create_topics(new, request_timeout=timeout_s, validate_only=True), timeout_s)
        for name, error in failed.items():
            if error.code() not in _EXISTS | _INVALID:
                raise fault(error, f"check the settings of topic {name}")
        return {name: error.str() for name, error in failed.items() if error.code() in _INVALID}

    def _create(
        self,
        topics: Mapping[str, int],
        configs: Mapping[str, Mapping[str, str]],
        replication_factor: int,
        deadline: float,
    ) -> None:
        new = [
            NewTopic(name, count, replication_factor, config=dict(configs.get(name, {})))
            for name, count in topics.items()
        ]

        def ask(left_s: float) -> Mapping[str, Future[Any]]:
            return self._admin.create_topics(new, operation_timeout=left_s, request_timeout=left_s)

        self._answers("create topic", ask, deadline, tolerated=_EXISTS)
        # Brokers learn of a topic, and that they lead it, a moment after the controller made it.
        partitions = [TopicPartition(name, partition) for name, count in topics.items() for partition in range(count)]
        self._offsets(partitions, LAST, deadline)

    def _all_existing(self, partitions: Iterable[TopicPartition], deadline: float) -> list[TopicPartition]:
        """Wait until the brokers know all of them: one may learn of a new topic or partition later than the others."""
        wanted = list(partitions)
        known_by = min(deadline, time.monotonic() + _LEARN_S)
        while True:
            topics = self._described((partition.topic for partition in wanted), seconds_left(deadline))
            missing = sorted(set(wanted).difference(_existing(wanted, topics)))
            if not missing:
                return wanted
            if time.monotonic() + _LEARN_RETRY_S >= known_by:
                raise BrokerUnavailable(f"offsets: no such partition: {', '.join(map(str, missing))}")
            threading.Event().wait(_LEARN_RETRY_S)

    def _offsets(
        self,
        partitions: Iterable[TopicPartition],
        spec: OffsetSpec,
        deadline: float,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, int]:
        """Offsets of partitions that are known to exist: waits for a partition that the broker does not know yet."""
        wanted = list(partitions)
        if not wanted:
            return {}

        def ask(left_s: float) -> Mapping[ClientPartition, Future[Any]]:
            return list_offsets(self._admin, wanted, spec, left_s, isolation)

        while True:
            results = self._answers("offset of", ask, deadline, passing=PASSING | ABSENT | FAILED_READS)
            # Around a broker's restart librdkafka 2.16 answers -1001 (no offset), without an error.
            unknown = [at for at, result in results.items() if result.offset < 0]
            if not unknown:
                return {TopicPartition(at.topic, at.partition): result.offset for at, result in results.items()}
            if time.monotonic() >= deadline:
                raise BrokerUnavailable(
                    f"offset of {_named(unknown[0])}: the broker answered without an offset and without an error"
                )
            self._forget_leaders(seconds_left(deadline))

    def _answers(
        self,
        doing: str,
        ask: Ask[K],
        deadline: float,
        tolerated: frozenset[int] = _NONE,
        passing: frozenset[int] = PASSING,
    ) -> dict[K, Any]:
        """An answer for each thing asked about, without those that failed with a ``tolerated`` code.

        Asks again while only ``passing`` codes stand in the way and there is time; raises what stands in the way then.
        """
        self._contact.make(deadline)
        times_s = attempts(deadline)
        while True:
            attempt_s = next(times_s)
            answers, failed = _gather(ask(attempt_s), attempt_s)
            bad = {what: error for what, error in failed.items() if error.code() not in tolerated}
            if not bad:
                return answers
            if time.monotonic() >= deadline or any(error.code() not in passing for error in bad.values()):
                what, error = next(iter(bad.items()))
                otherwise = BrokerUnavailable if error.code() in FAILED_READS & passing else BrokerError
                raise fault(error, f"{doing} {_named(what)}", otherwise)
            self._forget_leaders(attempt_s)

    def _forget_leaders(self, left_s: float) -> None:
        """Read the topics again: librdkafka remembers for 15 minutes that a topic had no leader."""
        self._admin.poll(_POLL_S)
        try:
            self._admin.list_topics(timeout=left_s)
        except KafkaException as raised:
            if raised.args[0].code() not in PASSING:
                raise fault(raised.args[0], "look up topics") from raised


def _existing(partitions: Iterable[TopicPartition], described: Mapping[str, Any]) -> list[TopicPartition]:
    """Those that the topics have."""
    # Offsets alone cannot tell: librdkafka says "no leaders" of partitions that do not exist and of those that wait
    # for a leader. Taking the second for the first would delete state.
    return [p for p in partitions if p.topic in described and p.partition < len(described[p.topic].partitions)]


def _gather(asked: Mapping[K, Future[Any]], timeout_s: float) -> tuple[dict[K, Any], dict[K, KafkaError]]:
    """Wait for all futures; what they bring, and how the others failed."""
    deadline = time.monotonic() + timeout_s + _GRACE_S
    results: dict[K, Any] = {}
    failed: dict[K, KafkaError] = {}
    for what, future in asked.items():
        try:
            results[what] = future.result(seconds_left(deadline))
        except KafkaException as raised:
            failed[what] = raised.args[0]
        except TimeoutError:
            failed[what] = KafkaError(_TIMED_OUT, f"no answer in {timeout_s:.1f} s")
    return results, failed


def _named(what: Hashable) -> str:
    return f"{what.topic}-{what.partition}" if isinstance(what, ClientPartition) else str(what)
