"""The settings that a decision depends on: given by the caller, seen in the group, or Kafka's defaults.

Members do not report them. ``assumed`` names those that were not given. Our members publish a digest of their
settings, which can confirm a guess.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from kstreams_assign.allowed_values import BALANCES, COSTS, check_value
from kstreams_assign.assign import ASSIGNORS, AssignConfig
from kstreams_assign.errors import ConfigError
from kstreams_assign.group.assignor_choice import JAVA_ASSIGNOR
from kstreams_assign.group.leader import settings_digest
from kstreams_assign.observe.decoded import DecodedGroup

OURS = "least_movement"
TAGS = "rack_aware_assignment_tags"
STRATEGY = "rack_aware_assignment_strategy"
BALANCE = "balance_by"
STANDBYS = "num_standby_replicas"
WARMUPS = "max_warmup_replicas"
DEFAULTS: Mapping[str, Any] = {setting.name: setting.default for setting in fields(AssignConfig)}


@dataclass(frozen=True, slots=True)
class Settings:
    """``config`` and ``assignor``; ``assumed`` has the origin of each value that was not given."""

    config: AssignConfig
    assignor: str
    assumed: Mapping[str, str] = field(default_factory=dict)


def read_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Read ``key=value`` texts. Raises ``ConfigError`` naming the key, the value and what is allowed."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        key, text = key.strip().replace(".", "_"), text.strip()
        if not equals or key not in {*DEFAULTS, "assignor"}:
            raise ConfigError(f"--set {pair}: write KEY=VALUE with one of {', '.join([*DEFAULTS, 'assignor'])}")
        settings[key] = _value(key, text)
    AssignConfig(**{key: value for key, value in settings.items() if key != "assignor"})
    return settings


def _value(key: str, text: str) -> Any:
    if key == "assignor":
        if text not in ASSIGNORS:
            raise ConfigError(f"--set {key}={text}: must be one of {', '.join(ASSIGNORS)}")
        return text
    if key == TAGS:
        return tuple(filter(None, (tag.strip() for tag in text.split(","))))
    if key in (STRATEGY, *COSTS):
        raise ConfigError(f"--set {key}={text}: this command does not read the racks of topic replicas: leave it out")
    if key == BALANCE:
        check_value(key, text)
        return text
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


def settings_of(group: DecodedGroup, given: Mapping[str, Any]) -> Settings:
    """Return what the caller gave, else what the group shows, else defaults."""
    assumed: dict[str, str] = {}
    assignor = given.get("assignor") or _assignor(group, assumed)
    seen = _standbys(group)
    warmups = max(DEFAULTS[WARMUPS], _warmups(group, given.get(STANDBYS, seen or 0)))
    balance_by = _balance_by(group)
    balance_known = balance_by in BALANCES
    known = {
        STANDBYS: seen or 0,
        WARMUPS: warmups,
        BALANCE: balance_by if balance_known else DEFAULTS[BALANCE],
        **given,
    }
    config = replace(AssignConfig(), **{key: value for key, value in known.items() if key != "assignor"})
    for key in DEFAULTS:
        if key not in given and key not in COSTS:
            value = getattr(config, key)
            assumed[key] = f"{_shown(value)}, the default"
    if STANDBYS not in given:
        why = "the default; one process has no standbys" if seen is None else "as many as every stateful task has"
        assumed[STANDBYS] = f"{seen or 0}, {why}"
    if WARMUPS not in given and warmups > DEFAULTS[WARMUPS]:
        assumed[WARMUPS] = f"{warmups:,}, as many as there are now"
    if balance_known:
        assumed.pop(BALANCE, None)
    elif balance_by is not None and BALANCE not in given:
        assumed[BALANCE] += ": " + _explain_later("the members'", balance_by)
    tags = sorted({tag for process in group.processes for tag in process.report.client_tags})
    if tags and TAGS not in given:
        assumed[TAGS] += f"; the members carry {', '.join(tags)}"
    return Settings(config, assignor, _proved(group, config, assignor, assumed))


def _assignor(group: DecodedGroup, assumed: dict[str, str]) -> str:
    if group.trailer is None:
        assumed["assignor"] = f"{JAVA_ASSIGNOR}, Kafka Streams' own: the leader does not report it"
        return JAVA_ASSIGNOR
    if group.trailer.assignor == "fallback_prior":
        assumed["assignor"] = f"{OURS}, the default: the last round was decided without end offsets"
        return OURS
    if group.trailer.assignor not in ASSIGNORS:
        assumed["assignor"] = f"{OURS}, the default: " + _explain_later("the leader's", group.trailer.assignor)
        return OURS
    return group.trailer.assignor


def _explain_later(whose: str, value: str) -> str:
    return f"{whose} {value!r} is of a later release, so predictions may differ"


def _balance_by(group: DecodedGroup) -> str | None:
    """Return the ``balance_by`` that all Python members report, and that of a Java group; None if they differ."""
    trailers = [consumer.info.trailer for consumers in group.view.processes.values() for consumer in consumers]
    reported = {trailer.balance_by for trailer in trailers if trailer}
    return None if len(reported) > 1 else next(iter(reported), DEFAULTS[BALANCE])


def _standbys(group: DecodedGroup) -> int | None:
    """Return how many replicas beside warm-ups every stateful task has; None with fewer than two processes."""
    if len(group.processes) < 2:
        return None
    stateful = {task for process in group.processes for task in (*process.offset_sums, *process.copies)}
    copies = Counter(task for process in group.processes for task in process.standby)
    return min((copies[task] for task in stateful & group.owners.keys()), default=0)


def _warmups(group: DecodedGroup, standbys: int) -> int:
    """Return the number of reported warm-ups, else of replicas beyond the standbys.

    During a hand-over the old replicas of withheld tasks are present too, so it returns 0.
    """
    if group.trailer:
        return sum(len(tasks) for tasks in group.trailer.warmups.values())
    if group.next_rebalance_ms == 0:
        return 0
    copies = Counter(task for process in group.processes for task in process.copies)
    return sum(max(0, number - standbys) for number in copies.values())


def _proved(group: DecodedGroup, config: AssignConfig, assignor: str, assumed: dict[str, str]) -> dict[str, str]:
    """Drop assumptions that the members' digests confirm; add a warning if they contradict them."""
    trailers = [process.report.trailer for process in group.processes]
    digests = {trailer.settings_digest for trailer in trailers if trailer and trailer.settings_digest}
    if not digests or digests == {settings_digest(assignor, config)}:
        return {k: v for k, v in assumed.items() if not digests or k not in DEFAULTS}
    differs = "the members have other assignment settings than these (their digests differ): give them with --set"
    return {**assumed, "settings": differs}
