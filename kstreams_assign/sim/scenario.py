"""The group of a simulation: its topology, its settings and its speeds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from kstreams_assign.allowed_values import BalanceBy, GroupProtocol
from kstreams_assign.assign import AssignConfig
from kstreams_assign.group.assignor_choice import JAVA_ASSIGNOR
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopologyShape

APPLICATION = "sim"
STATEFUL_TOPIC, STATELESS_TOPIC = "orders", "clicks"
MIXED = 0.2
"""The part of groups that are mixed."""
TIMED = 1 / 3
"""The part of groups that have not the usual timeouts."""
TIMES = ((45_000, 9_000), (45_000, 10_000), (20_000, 10_000), (10_000, 10_000), (45_000, 60_000))
"""Session and rebalance timeouts. Each is at least three heartbeat intervals, as ``Config`` asks for."""
CLASSIC_ONLY = (
    "max_warmup_replicas",
    "acceptable_recovery_lag",
    "assignor",
    "warmup_queue",
    "early_probing",
    "static",
    "probing_rebalance_interval_ms",
    "early_probing_floor_ms",
    "java",
    "loads",
)
"""The settings without effect in a streams group: its coordinator assigns, and it has neither warm-ups nor probes."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The fixed parts of a simulation. Rates are offsets per second: of an input partition, of a process's restore."""

    processes: int = 3
    partitions: int = 4
    stateless_partitions: int = 2
    standbys: int = 1
    max_warmup_replicas: int = 2
    acceptable_recovery_lag: int = 1_000
    assignor: str = "least_movement"
    warmup_queue: bool = False
    early_probing: bool = True
    static: bool = False
    first_records: int = 20_000
    more_records: int = 0
    """At first, each task's changelog has so many records more than that of the task before."""
    records_per_s: int = 20
    restored_per_s: int = 5_000
    late: tuple[int, ...] = (0, 0, 0)
    """When the process in each place starts, in milliseconds."""
    commit_interval_ms: int = 5_000
    state_cleanup_delay_ms: int = 30_000
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 60_000
    probing_rebalance_interval_ms: int = 60_000
    early_probing_floor_ms: int = 10_000
    safety_ms: int = 180_000
    exactly_once: bool = False
    """Not drawn: a seed has the same group under both guarantees."""
    java: tuple[int, ...] = ()
    """The places of Java members (``sim.java``). With any, all members have endpoints."""
    loads: tuple[int, ...] = ()
    """Not drawn. Records a minute of each task in order, by which the group balances; empty: by number."""
    protocol: str = GroupProtocol.CLASSIC.value
    """Not drawn. In a streams group the coordinator assigns (KIP-1071)."""

    @classmethod
    def draw(cls, rng: Random) -> Scenario:
        """Draw a small group: bugs of large groups also show in small ones, whose logs are easier to read."""
        processes = rng.randint(2, 4)
        return cls(
            processes=processes,
            partitions=rng.randint(1, 6),
            stateless_partitions=rng.choice((0, 0, 1, 3)),
            standbys=rng.choice((0, 0, 1, 1, 2)),
            max_warmup_replicas=rng.randint(1, 3),
            acceptable_recovery_lag=rng.choice((0, 1_000, 10_000)),
            assignor=rng.choice(("least_movement", "least_movement", "high_availability")),
            warmup_queue=rng.random() < 0.3,
            early_probing=rng.random() < 0.7,
            static=rng.random() < 0.25,
            first_records=rng.choice((0, 5_000, 100_000)),
            records_per_s=rng.choice((0, 20, 200)),
            restored_per_s=rng.choice((2_000, 20_000)),
            late=tuple(rng.choice((0, 0, rng.randrange(120_000))) for _ in range(processes)),
            commit_interval_ms=rng.choice((1_000, 5_000, 30_000)),
            state_cleanup_delay_ms=rng.choice((0, 10_000, 60_000)),
        )

    def mixed(self, rng: Random) -> Scenario:
        """Return the same group, one time in five with Java members.

        Half of these groups name Java's assignor from the start, as a group that is meant to be mixed should.
        """
        if rng.random() >= MIXED:
            return self
        java = sorted(rng.sample(range(self.processes), rng.randint(1, self.processes)))
        return replace(self, java=tuple(java), assignor=rng.choice((self.assignor, JAVA_ASSIGNOR)))

    def timed(self, rng: Random) -> Scenario:
        """Return the same group, one time in three with other timeouts.

        Faults last at most 40 seconds. So a member that sleeps fails to join a rebalance, or to release tasks, in time
        only with a rebalance timeout below that, and in silence only with a session that is longer still.
        """
        if rng.random() >= TIMED:
            return self
        session_ms, rebalance_ms = rng.choice(TIMES)
        return replace(self, session_timeout_ms=session_ms, rebalance_timeout_ms=rebalance_ms)

    def of_streams_group(self) -> Scenario:
        """Return the same group under the streams protocol, without the settings that only a classic group has."""
        usual = Scenario()
        return replace(
            self, protocol=GroupProtocol.STREAMS.value, **{name: getattr(usual, name) for name in CLASSIC_ONLY}
        )

    @property
    def write_lease_ms(self) -> int:
        return min(self.session_timeout_ms, self.rebalance_timeout_ms)

    @property
    def is_streams_group(self) -> bool:
        return self.protocol == GroupProtocol.STREAMS

    def begins_with(self, partition: int) -> int:
        """Return the first length of a stateful task's changelog, and the first committed offset of its input."""
        return self.first_records + self.more_records * partition

    @property
    def shape(self) -> TopologyShape:
        stateful = SubtopologyShape((STATEFUL_TOPIC,), (Store("totals"),))
        stateless = SubtopologyShape((STATELESS_TOPIC,))
        return TopologyShape((stateful, stateless) if self.stateless_partitions else (stateful,))

    @property
    def partition_counts(self) -> dict[str, int]:
        counts = {STATEFUL_TOPIC: self.partitions, STATELESS_TOPIC: self.stateless_partitions}
        return {topic: count for topic, count in counts.items() if count}

    @property
    def stateful_tasks(self) -> tuple[TaskId, ...]:
        return tuple(TaskId(0, partition) for partition in range(self.partitions))

    @property
    def config(self) -> AssignConfig:
        return AssignConfig(
            acceptable_recovery_lag=self.acceptable_recovery_lag,
            max_warmup_replicas=self.max_warmup_replicas,
            num_standby_replicas=self.standbys,
            probing_rebalance_interval_ms=self.probing_rebalance_interval_ms,
            balance_by=(BalanceBy.INPUT_RATE if self.loads else BalanceBy.TASKS).value,
        )
