"""What a member's settings mean in a streams group (KIP-1071): which have no effect there, and which session it has.

Pure. What must not live here: values that contradict each other in any group (``config``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from kstreams_assign.config import Config
from kstreams_assign.errors import ConfigError

STATIC_MEMBERS_VERSION = 1
"""The version of StreamsGroupHeartbeat that has static members: of Kafka 4.4."""

OFFSETS_VERSION = 1
"""The version in which brokers take reports of positions."""

SESSION_TIMEOUT = "streams.session.timeout.ms"

_BROKERS_ASSIGN = "the brokers assign the tasks"
_NO_WARM_UPS = "the brokers' assignor has no warm-ups"
NO_EFFECT: Mapping[str, str] = {
    "assignor": _BROKERS_ASSIGN,
    "balance_by": _BROKERS_ASSIGN,
    "num_standby_replicas": "set streams.num.standby.replicas of the group at the brokers",
    "heartbeat_interval_ms": "set streams.heartbeat.interval.ms of the group at the brokers",
    "max_warmup_replicas": _NO_WARM_UPS,
    "probing_rebalance_interval_ms": _NO_WARM_UPS,
    "early_probing": _NO_WARM_UPS,
    "early_probing_floor_ms": _NO_WARM_UPS,
    "warmup_queue": _NO_WARM_UPS,
    "rack_aware_assignment_tags": _BROKERS_ASSIGN,
    "rack_aware_assignment_strategy": _BROKERS_ASSIGN,
    "rack_aware_assignment_traffic_cost": _BROKERS_ASSIGN,
    "rack_aware_assignment_non_overlap_cost": _BROKERS_ASSIGN,
}
"""Setting without effect in a streams group -> why, or what to do instead."""


def ineffective_keys(config: Config) -> list[str]:
    """Return the settings that were changed from their defaults and have no effect in a streams group."""
    defaults = {each.name: each.default for each in fields(config)}
    return [key for key in NO_EFFECT if getattr(config, key) != defaults[key]]


def ineffective_settings(config: Config) -> tuple[str, ...]:
    """Return a warning for each of them."""
    return tuple(
        f"{key} = {getattr(config, key)!r}: has no effect in a streams group: {NO_EFFECT[key]}"
        for key in ineffective_keys(config)
    )


def refuse_static_member(config: Config, heartbeat_version: int) -> None:
    """Raise ``ConfigError`` for a static member if the brokers' newest ``heartbeat_version`` knows none."""
    if config.group_instance_id is not None and heartbeat_version < STATIC_MEMBERS_VERSION:
        raise ConfigError(
            f"group_instance_id = {config.group_instance_id!r}: static members of streams groups need brokers of Kafka "
            "4.4 or later; upgrade the brokers, or remove it: a process that comes back with its state_dir before its "
            "session ends has its tasks again"
        )


def check_session(config: Config, group: Mapping[str, str]) -> tuple[str, ...]:
    """Return a warning if the group's session timeout is not known. ``group``: the brokers' settings of the group.

    Raises ``ConfigError`` for a session that this member would take for longer than the group's is: it would still
    write when others have its tasks.
    """
    timeout = group.get(SESSION_TIMEOUT)
    if timeout is None:
        unknown = (
            f"{SESSION_TIMEOUT} of the group is not known: it must be at least session_timeout_ms = "
            f"{config.session_timeout_ms}; allow this member to describe the group's settings (DESCRIBE_CONFIGS)"
        )
        return (unknown,)
    if config.session_timeout_ms > int(timeout):
        raise ConfigError(
            f"session_timeout_ms = {config.session_timeout_ms}: must be at most {SESSION_TIMEOUT} = {timeout} of the "
            f"group {config.application_id}; set session_timeout_ms = {timeout}, or raise the group's with "
            "kafka-configs.sh --entity-type groups"
        )
    return ()
