"""What settings may be: the range or the choices of each, and the one check that refuses another value.

``Config`` (every setting of a member) and ``AssignConfig`` (those that a decision depends on) have settings in common;
both check them here. What must not live here: defaults, and checks that need more than one setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kstreams_assign.errors import ConfigError


class Guarantee(StrEnum):
    """Values of ``processing_guarantee``."""

    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once_v2"


class GroupProtocol(StrEnum):
    """Values of ``group_protocol``."""

    CLASSIC = "classic"
    STREAMS = "streams"


class BalanceBy(StrEnum):
    """Values of ``balance_by``."""

    TASKS = "tasks"
    INPUT_RATE = "input_rate"
    STATE_SIZE = "state_size"


ASSIGNOR_NAMES = ("least_movement", "high_availability", "sticky", "fallback_prior", "learner")
GUARANTEES = tuple(each.value for each in Guarantee)
USER_DATA = ("apache", "kip441")
GROUP_PROTOCOLS = tuple(each.value for each in GroupProtocol)
OFFSET_RESETS = ("earliest", "latest")
MEMBERSHIP_OPERATIONS = ("default", "leave_group", "remain_in_group")
SIGTERM_MEANINGS = ("close", "restart")
BALANCES = tuple(each.value for each in BalanceBy)
RACK_AWARE_STRATEGIES = ("none", "min_traffic", "balance_subtopology")


@dataclass(frozen=True, slots=True)
class Range:
    """Whole numbers from ``least`` to ``most``, or without an upper limit; and the number ``also`` below them."""

    least: int
    most: int | None = None
    also: int | None = None

    def allows(self, value: object) -> bool:
        """Return whether this is one of the numbers; booleans are none."""
        if isinstance(value, bool) or not isinstance(value, int):
            return False
        return value == self.also or (self.least <= value and (self.most is None or value <= self.most))

    def __str__(self) -> str:
        limit = "" if self.most is None else f" and <= {self.most}"
        return f"a whole number >= {self.least}{limit}" + ("" if self.also is None else f", or {self.also}")


INT32_MAX = 2**31 - 1
"""The most that fits into a request's field of 32 bits, such as a timeout of JoinGroup."""

INT64_MAX = 2**63 - 1
"""The most that Kafka allows for most settings in milliseconds: a ``LONG`` in ``StreamsConfig``."""

PROBING_INTERVAL_MAX_MS = 2**62
"""An assignment holds the time of the probing rebalance, now and the interval, in 64 bits (KIP-441)."""

RANGES: Mapping[str, Range] = {
    "num_standby_replicas": Range(0),
    "acceptable_recovery_lag": Range(0),
    "max_warmup_replicas": Range(1),
    "probing_rebalance_interval_ms": Range(60_000, PROBING_INTERVAL_MAX_MS),
    "scheduled_rebalance_max_delay_ms": Range(0, INT32_MAX),
    "early_probing_floor_ms": Range(1_000, INT64_MAX),
    "warm_join_timeout_ms": Range(0, INT64_MAX),
    "state_cleanup_delay_ms": Range(0, INT64_MAX),
    "state_cleanup_dir_max_age_ms": Range(-1, INT64_MAX),
    "session_timeout_ms": Range(1_000, INT32_MAX),
    "heartbeat_interval_ms": Range(50, INT32_MAX),
    "max_poll_interval_ms": Range(1_000, INT32_MAX),
    "max_poll_records": Range(1),
    "max_poll_bytes": Range(1),
    "commit_interval_ms": Range(1, INT64_MAX),
    "buffered_records_max": Range(1),
    "repartition_purge_interval_ms": Range(0, INT64_MAX),
    "replication_factor": Range(1, 32_767, also=-1),
}
"""KIP-441, "Parameters", has the smallest values of the first four."""

COSTS: Mapping[str, Range] = {
    "rack_aware_assignment_traffic_cost": Range(0, 1_000_000),
    "rack_aware_assignment_non_overlap_cost": Range(0, 1_000_000),
}
"""Ranges of settings that may also be left out. Java adds up costs in 32 bits; with this limit a task may have two
thousand partitions."""

MEMORY: Mapping[str, Range] = {
    "memory_limit_bytes": Range(1 << 20),
    "rocksdb_block_cache_bytes": Range(1 << 20),
    "rocksdb_write_buffers_bytes": Range(1 << 20),
    "statestore_cache_max_bytes": Range(0),
    "input_buffer_max_bytes": Range(1 << 20, INT32_MAX),
    "restore_buffer_max_bytes": Range(1 << 20, INT32_MAX),
    "output_buffer_max_bytes": Range(1 << 20),
}
"""Ranges of settings that may also be left out; ``memory`` decides then. librdkafka's queues have at most 2 GiB."""

DISK: Mapping[str, Range] = {"warm_join_max_bytes": Range(0)}
"""Ranges of settings that may also be left out; the room on the disk decides then."""

CHOICES: Mapping[str, tuple[str, ...]] = {
    "assignor": ASSIGNOR_NAMES,
    "processing_guarantee": GUARANTEES,
    "auto_offset_reset": OFFSET_RESETS,
    "user_data": USER_DATA,
    "group_protocol": GROUP_PROTOCOLS,
    "group_membership_operation": MEMBERSHIP_OPERATIONS,
    "sigterm": SIGTERM_MEANINGS,
    "rack_aware_assignment_strategy": RACK_AWARE_STRATEGIES,
    "balance_by": BALANCES,
}


def check_value(key: str, value: object) -> None:
    """Raise ``ConfigError`` for a value that the setting may not have. A setting without an entry may have any."""
    if key in CHOICES and value not in CHOICES[key]:
        raise ConfigError(f"{key} = {value!r}: must be one of {', '.join(CHOICES[key])}")
    optional = None if value is None else COSTS.get(key) or MEMORY.get(key) or DISK.get(key)
    allowed = RANGES.get(key) or optional
    if allowed is not None and not allowed.allows(value):
        raise ConfigError(f"{key} = {value!r}: must be {allowed}")


def check_values(settings: object, keys: Iterable[str]) -> None:
    """Check these attributes of ``settings``. Raises ``ConfigError`` for the first that is not allowed."""
    for key in keys:
        check_value(key, getattr(settings, key))
