"""The leader's shell: look up at the brokers what ``group.leader`` needs, within one deadline, and pass it on.

It runs on the client's I/O thread between JoinGroup and SyncGroup, where no heartbeat is sent while the session runs.
So all look-ups of one decision share a deadline of a third of the session timeout; what is late stays unknown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from uuid import UUID

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.adapters.confluent import ClusterAdmin, CommittedOffsets
from kstreams_assign.assign import AssignConfig, Loads
from kstreams_assign.config import Config
from kstreams_assign.errors import BrokerError, TopologyMismatch
from kstreams_assign.events import DecisionEvent, LookupFailedEvent, Placement
from kstreams_assign.group.dialects import DIALECTS
from kstreams_assign.group.leader import DecisionInput, decide, lookups, refuse_group
from kstreams_assign.group.size import RECORD_BYTES_MAX
from kstreams_assign.group.values import Decision, ErrorCode, JoinedMember, LeaderState, MemberAssignment
from kstreams_assign.group.view import GroupView, read_group
from kstreams_assign.model import TaskId, TopicPartition, TopologyShape, task_names
from kstreams_assign.topology.changelog_settings import changelog_settings
from kstreams_assign.topology.internal import (
    REPARTITION_SETTINGS,
    add_repartition_counts,
    missing_sources,
    resolve_patterns,
)
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.first_look import RECORD_LIMIT

NO_LOADS: Loads = MappingProxyType({})
GROUPS_TOPIC = "__consumer_offsets"
LEARN_S, LEARN_RETRY_S = 2.0, 0.1
"""How long a broker may take to learn of a topic, and how often it is asked meanwhile."""


class Leading:
    """Lead the group whenever this member is elected.

    ``restored_per_s`` says how many records a second this process restores, None if it has restored few. ``standing``:
    the last decision and its input. ``refused``: why the last decision assigned no task, None if it did.
    """

    def __init__(
        self,
        config: Config,
        shape: TopologyShape,
        process: UUID,
        admin: ClusterAdmin,
        committed: CommittedOffsets,
        log: EventLog,
        restored_per_s: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._committed = committed
        self._restored_per_s = restored_per_s
        self._config = config
        self._shape = shape
        self._process = process
        self._admin = admin
        self._log = log
        self._existing: dict[str, int] = {}
        """The changelogs that were found or created, with their partitions."""
        self._counts: dict[str, int] = {}
        """The partitions of each source topic at the last decision that knew all."""
        self.standing: LeaderState | None = None
        self.refused: TopologyMismatch | None = None

    def lead(
        self,
        members: Sequence[JoinedMember],
        counts: Mapping[str, int],
        promised: Mapping[TaskId, UUID],
        joined_ago_ms: int = 0,
        loads: Loads = NO_LOADS,
    ) -> Mapping[str, MemberAssignment]:
        """Decide for these members. ``counts``: the partitions of each topic that they subscribe to.

        ``promised`` and ``loads`` are what this member's last assignment says, ``joined_ago_ms`` how long ago it has
        joined (``DecisionInput``).
        """
        started = time.monotonic()
        view = read_group(members, DIALECTS[self._config.user_data])
        deadline = started + self._config.session_timeout_ms / 3000
        try:
            question = self._question(counts, view.partitions_seen, deadline)
            question = replace(question, promised=promised, joined_ago_ms=joined_ago_ms, loads=loads)
            decision, self.refused = decide(view, question), None
        except TopologyMismatch as cause:  # kafka-python's ``assign`` calls this and must not raise
            decision, self.refused = refuse_group(view, ErrorCode.ASSIGNMENT_ERROR, str(cause)), cause
        self.standing = decision.standing
        self._report(view, decision, time.monotonic() - started)
        return decision.assignments

    def _question(self, counts: Mapping[str, int], seen: int, deadline: float) -> DecisionInput:
        """Look up what a decision needs, and create missing internal topics. Raises ``TopologyMismatch``."""
        known = [topic for topic, count in counts.items() if count]
        topology = resolve_patterns(self._shape, self._config.application_id, known)
        partition_counts = self._complete(topology, counts, seen, deadline)
        return DecisionInput(
            application_id=self._config.application_id,
            topology=topology,
            assignor=self._config.assignor,
            config=assign_config(self._config),
            leader=self._process,
            partition_counts=partition_counts,
            end_offsets=self._end_offsets(topology, partition_counts, deadline),
            now_ms=wall_ms(),
            restored_per_s=self._restored_per_s(),
            warmup_queue=self._config.warmup_queue,
            record_bytes_max=self._record_bytes_max(deadline),
            replica_racks=self._replica_racks(topology, partition_counts, deadline),
        )

    def end_offset_sums(self, tasks: Iterable[TaskId]) -> dict[TaskId, int]:
        """Return the sum of each task's changelog end offsets; empty if the brokers do not answer in time."""
        changelogs = {t: list(self._shape.changelogs(self._config.application_id, t).values()) for t in tasks}
        asked = [partition for partitions in changelogs.values() for partition in partitions]
        try:
            ends = self._ends(asked, time.monotonic() + self._config.session_timeout_ms / 3000)
        except BrokerError as cause:
            self._log.emit(LookupFailedEvent(what="changelog end offsets", reason=str(cause)))
            return {}
        return {task: sum(ends[partition] for partition in partitions) for task, partitions in changelogs.items()}

    def _complete(
        self, topology: TopologyShape, counts: Mapping[str, int], seen: int, deadline: float
    ) -> Mapping[str, int]:
        """Return the partition counts of all sources, with those of repartition topics. Raises ``TopologyMismatch``.

        Source topics that the client's metadata lacks are looked up again, as they may be new; all of them are if a
        member has ``seen`` more partitions. One that is not found is what it was at the last decision if there is no
        answer: a group that works is not refused because a broker is away.
        """
        there = dict(counts)
        sources = topology.source_topics
        grown = [*sources] if seen > sum(there.get(topic, 0) for topic in sources) else []
        if asked := grown or missing_sources(topology, there):
            found = self._look_up_counts(asked, deadline)
            there.update(self._counts_before(asked, there) if found is None else found)
        if missing_sources(topology, there):
            return there
        self._counts = {topic: there[topic] for topic in sources if topic in there}
        return add_repartition_counts(topology, there)

    def _counts_before(self, topics: Iterable[str], there: Mapping[str, int]) -> Mapping[str, int]:
        return {topic: self._counts[topic] for topic in topics if topic in self._counts and not there.get(topic)}

    def _look_up_counts(self, topics: Sequence[str], deadline: float) -> Mapping[str, int] | None:
        """Wait a moment for topics that are not there: a broker may learn of one later than the others.

        None: the brokers do not answer.
        """
        known_by = min(deadline, time.monotonic() + LEARN_S)
        while True:
            try:
                counts = self._admin.partition_counts(topics, _left(deadline))
            except BrokerError as cause:
                self._log.emit(LookupFailedEvent(what="source topics", reason=str(cause)))
                return None
            if len(counts) == len(set(topics)) or time.monotonic() + LEARN_RETRY_S >= known_by:
                return counts
            threading.Event().wait(LEARN_RETRY_S)

    def _record_bytes_max(self, deadline: float) -> int:
        """Return the size limit of the group's record; asked each time, as an operator may have raised it."""
        try:
            limit = self._admin.topic_setting(GROUPS_TOPIC, RECORD_LIMIT, _left(deadline))
        except BrokerError as cause:  # also where access to the settings is refused
            self._log.emit(LookupFailedEvent(what=f"{RECORD_LIMIT} of {GROUPS_TOPIC}", reason=str(cause)))
            return RECORD_BYTES_MAX
        return RECORD_BYTES_MAX if limit is None else int(limit)

    def _end_offsets(
        self, topology: TopologyShape, counts: Mapping[str, int], deadline: float
    ) -> Mapping[TopicPartition, int] | None:
        """Create missing internal topics, and return the end offset of every changelog; a new one ends at 0.

        None if the brokers do not answer in time, or if source topics are missing. Raises ``TopologyMismatch``.
        """
        if missing_sources(topology, counts):
            return None
        wanted = lookups(topology, self._config.application_id, counts)
        try:
            repartition = {name: counts[name] for name in topology.repartition_topics}
            if repartition:  # each time: no end offset of theirs is read, so a deletion would not be noticed
                self._create(repartition, dict.fromkeys(repartition, REPARTITION_SETTINGS), deadline)
            new = self._create_changelogs(topology, wanted.changelog_topics, deadline)
            asked = [partition for partition in (*wanted.end_offsets, *wanted.committed) if partition.topic not in new]
            ends = self._ends(asked, deadline)
        except BrokerError as cause:
            self._existing.clear()  # one may have been deleted: look for all the next time, and create them
            self._log.emit(LookupFailedEvent(what="changelog end offsets", reason=str(cause)))
            return None
        return {**dict.fromkeys(wanted.end_offsets, 0), **ends}

    def _ends(self, changelogs: Sequence[TopicPartition], deadline: float) -> dict[TopicPartition, int]:
        """Return end offsets; a source topic's is the committed one (Kafka: ``ClientUtils.fetchCommittedOffsets``)."""
        sources = self._shape.source_changelogs
        shared = [partition for partition in changelogs if partition.topic in sources]
        ends = self._admin.end_offsets([p for p in changelogs if p.topic not in sources], _left(deadline))
        return {**ends, **dict.fromkeys(shared, 0), **self._committed.read(shared, _left(deadline))}

    def _replica_racks(
        self, topology: TopologyShape, counts: Mapping[str, int], deadline: float
    ) -> Mapping[TopicPartition, frozenset[str]]:
        """Return the racks of the replicas of sources and, with standbys, changelogs; empty without a strategy."""
        config = self._config
        if config.rack_aware_assignment_strategy == "none" or missing_sources(topology, counts):
            return {}
        changelogs = (
            lookups(topology, config.application_id, counts).changelog_topics if config.num_standby_replicas else ()
        )
        try:
            return self._admin.replica_racks([*topology.source_topics, *changelogs], _left(deadline))
        except BrokerError as cause:
            self._log.emit(LookupFailedEvent(what="racks of replicas", reason=str(cause)))
            return {}

    def _create_changelogs(self, topology: TopologyShape, topics: Mapping[str, int], deadline: float) -> set[str]:
        """Create the changelogs that do not exist, and return their names. Raises ``TopologyMismatch``."""
        unknown = {topic: count for topic, count in topics.items() if self._existing.get(topic) != count}
        if not unknown:
            return set()
        there = self._admin.partition_counts(unknown, _left(deadline))
        self._create(unknown, changelog_settings(topology, self._config.application_id), deadline)
        self._existing.update(unknown)
        return unknown.keys() - there.keys()

    def _create(self, topics: Mapping[str, int], settings: Mapping[str, Mapping[str, str]], deadline: float) -> None:
        factor = self._config.replication_factor
        self._admin.create_topics(topics, _left(deadline), configs=settings, replication_factor=factor)

    def _report(self, view: GroupView, decision: Decision, seconds: float) -> None:
        self._log.emit(
            DecisionEvent(
                kind=decision.kind,
                assignor=decision.assignor,
                assignor_version=decision.assignor_version,
                members=sum(map(len, view.processes.values())),
                placements={
                    str(process): Placement(
                        active=task_names(placement.active),
                        standby=task_names(placement.standby),
                        warmup=task_names(placement.warmup),
                    )
                    for process, placement in decision.placements.items()
                },
                changed={str(task): (str(old), str(new)) for task, (old, new) in decision.changed.items()},
                adopted=tuple(map(str, decision.adopted)),
                owner_changes_lower_bound=decision.owner_changes_lower_bound,
                withheld=tuple(map(str, decision.withheld)),
                waiting={str(task): str(process) for task, process in decision.waiting.items()},
                wait_ends_ms=decision.wait_ends_ms,
                restored_sooner={str(task): str(process) for task, process in decision.restored_sooner.items()},
                next_probe_ms=decision.next_probe_ms,
                error=int(decision.error),
                record_bytes=decision.record_bytes,
                warnings=(*decision.warnings, *self._warn_of_time(seconds)),
                seconds=round(seconds, 4),
            )
        )

    def _warn_of_time(self, seconds: float) -> Iterator[str]:
        """Warn before it is too late: the broker removes a leader that says nothing for a session, and so the next."""
        config = self._config
        if seconds > config.session_timeout_ms / 2000:
            yield (
                f"the decision took {seconds:.1f} s with its look-ups, and a leader that takes a whole session is "
                f"removed: session_timeout_ms = {config.session_timeout_ms}; raise it in all members"
            )
            if config.rack_aware_assignment_strategy != "none":
                yield 'with rack_aware_assignment_strategy = "none" a decision takes less time'


def assign_config(config: Config) -> AssignConfig:
    """Return the settings that a decision depends on."""
    return AssignConfig(
        acceptable_recovery_lag=config.acceptable_recovery_lag,
        max_warmup_replicas=config.max_warmup_replicas,
        num_standby_replicas=config.num_standby_replicas,
        probing_rebalance_interval_ms=config.probing_rebalance_interval_ms,
        rack_aware_assignment_tags=tuple(config.rack_aware_assignment_tags),
        rack_aware_assignment_strategy=config.rack_aware_assignment_strategy,
        rack_aware_assignment_traffic_cost=config.rack_aware_assignment_traffic_cost,
        rack_aware_assignment_non_overlap_cost=config.rack_aware_assignment_non_overlap_cost,
        scheduled_rebalance_max_delay_ms=config.scheduled_rebalance_max_delay_ms,
        balance_by=config.balance_by,
    )


def _left(deadline: float) -> float:
    return max(0.05, deadline - time.monotonic())
