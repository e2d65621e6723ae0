"""The settings that a decision depends on. They are on no wire: told by the caller, seen in the group, or Kafka's defaults.

What was not told stands in ``assumed``. Members of ours publish a digest of theirs, so a guess can be proved right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from kstreams_assign.assign import ASSIGNORS, AssignConfig
from kstreams_assign.errors import ConfigError
from kstreams_assign.group.assignor_choice import JAVA_ASSIGNOR
from kstreams_assign.group.leader import settings_digest
from kstreams_assign.observe.decoded import DecodedGroup

OURS = "least_movement"
TAGS = "rack_aware_assignment_tags"
STRATEGY = "rack_aware_assignment_strategy"
COSTS = ("rack_aware_assignment_traffic_cost", "rack_aware_assignment_non_overlap_cost")
STANDBYS = "num_standby_replicas"
WARMUPS = "max_warmup_replicas"
DEFAULTS: Mapping[str, Any] = {one.name: one.default for one in fields(AssignConfig)}


@dataclass(frozen=True, slots=True)
class Settings:
    """``config`` and ``assignor`` as far as they are known; ``assumed`` says of each other one where it comes from."""

    config: AssignConfig
    assignor: str
    assumed: Mapping[str, str] = field(default_factory=dict)


def read_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """``key=value`` texts as values. Raises ``ConfigError`` naming the key, the value and what is allowed."""
    told: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        key, text = key.strip().replace(".", "_"), text.strip()
        if not equals or key not in {*DEFAULTS, "assignor"}:
            raise ConfigError(f"--set {pair}: write KEY=VALUE with one of {', '.join([*DEFAULTS, 'assignor'])}")
        told[key] = _value(key, text)
    AssignConfig(**{key: value for key, value in told.items() if key != "assignor"})
    return told


def _value(key: str, text: str) -> Any:
    if key == "assignor":
        if text not in ASSIGNORS:
            raise ConfigError(f"--set {key}={text}: must be one of {', '.join(ASSIGNORS)}")
        return text
    if key == TAGS:
        return tuple(filter(None, (one.strip() for one in text.split(","))))
    if key in (STRATEGY, *COSTS):
        raise ConfigError(f"--set {key}={text}: where replicas are is not looked at here, so racks cannot be played")
    if not text.isdecimal():
        raise ConfigError(f"--set {key}={text}: must be a whole number")
    return int(text)


def _shown(value: object) -> str:
    match value:
        case tuple():
            return ", ".join(value) or "none"
        case int():
            return f"{value:,}"
    return str(value)


def settings_of(group: DecodedGroup, told: Mapping[str, Any]) -> Settings:
    """What the caller told, then what the group shows, then defaults."""
    assumed: dict[str, str] = {}
    assignor = told.get("assignor") or _assignor(group, assumed)
    seen = _standbys(group)
    warmups = max(DEFAULTS[WARMUPS], _warmups(group, told.get(STANDBYS, seen or 0)))
    known = {STANDBYS: seen or 0, WARMUPS: warmups, **told}
    config = replace(AssignConfig(), **{key: value for key, value in known.items() if key != "assignor"})
    for key in DEFAULTS:
        if key not in told and key not in COSTS:
            value = getattr(config, key)
            assumed[key] = f"{_shown(value)}, the default"
    if STANDBYS not in told:
        why = "the default; one process has no standbys" if seen is None else "as many as every stateful task has"
        assumed[STANDBYS] = f"{seen or 0}, {why}"
    if WARMUPS not in told and warmups > DEFAULTS[WARMUPS]:
        assumed[WARMUPS] = f"{warmups:,}, as many as there are now"
    tags = sorted({tag for process in group.processes for tag in process.report.client_tags})
    if tags and TAGS not in told:
        assumed[TAGS] += f"; the members carry {', '.join(tags)}"
    return Settings(config, assignor, _proved(group, config, assignor, assumed))


def _assignor(group: DecodedGroup, assumed: dict[str, str]) -> str:
    if group.trailer is None:
        assumed["assignor"] = f"{JAVA_ASSIGNOR}, Kafka Streams' own: the leader does not tell"
        return JAVA_ASSIGNOR
    if group.trailer.assignor == "fallback_prior":
        assumed["assignor"] = f"{OURS}, the default: the last round was decided without end offsets"
        return OURS
    return group.trailer.assignor


def _standbys(group: DecodedGroup) -> int | None:
    """How many copies beside warm-ups every task with copies or reported state has; None if none could have any."""
    if len(group.processes) < 2:
        return None
    stateful = {task for process in group.processes for task in (*process.offset_sums, *process.copies)}
    copies = Counter(task for process in group.processes for task in process.standby)
    return min((copies[task] for task in stateful & group.owners.keys()), default=0)


def _warmups(group: DecodedGroup, standbys: int) -> int:
    """How many copies there are beyond the standbys, or how many are called warm-ups.

    While a hand-over is under way the old copies of what is withheld stand there too, and nothing can be counted.
    """
    if group.trailer:
        return sum(len(tasks) for tasks in group.trailer.warmups.values())
    if group.next_rebalance_ms == 0:
        return 0
    copies = Counter(task for process in group.processes for task in process.copies)
    return sum(max(0, number - standbys) for number in copies.values())


def _proved(group: DecodedGroup, config: AssignConfig, assignor: str, assumed: dict[str, str]) -> dict[str, str]:
    """Without what the members' digests prove; with a warning where they prove it wrong."""
    trailers = [process.report.trailer for process in group.processes]
    digests = {trailer.settings_digest for trailer in trailers if trailer and trailer.settings_digest}
    if not digests or digests == {settings_digest(assignor, config)}:
        return {k: v for k, v in assumed.items() if not digests or k not in DEFAULTS}
    differs = "the members have other assignment settings than these (their digests say so): give them by --set"
    return {**assumed, "settings": differs}
