"""Transcripts: a script and its events as a text that can be kept and run again.

Prose, the script, a rule, then the events. Simulating does not belong here (``play``).
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from typing import Any, TypeVar

from kstreams_assign.allowed_values import ASSIGNOR_NAMES, GROUP_PROTOCOLS, RANGES, Range
from kstreams_assign.errors import ConfigError
from kstreams_assign.sim.faults import NO_FAULTS, Fault, Faults
from kstreams_assign.sim.play import Played, Script
from kstreams_assign.sim.scenario import CLASSIC_ONLY, Scenario

RULE = "----"
NAMES = {"assignor": ASSIGNOR_NAMES, "protocol": GROUP_PROTOCOLS}
POSITIVE = ("processes", "partitions", "restored_per_s", "rebalance_timeout_ms", "safety_ms")
"""Settings of a scenario that a member does not have, and that may not be 0."""

Part = TypeVar("Part")


def transcript(played: Played) -> str:
    """Return the whole transcript."""
    return "\n".join([*given(played.script), RULE, *happened(played)]) + "\n"


def given(script: Script) -> Iterator[str]:
    """Yield the lines of the script, without settings that have their default."""
    yield f"simulate {script.seed}"
    yield "scenario" + _pairs(script.scenario, Scenario())
    yield "faults" + _pairs(script.faults, Faults())
    yield from map(str, script.plan)


def happened(played: Played) -> Iterator[str]:
    """Yield the log, then the violations or the summary."""
    yield from played.lines
    for violation in played.violations:
        yield f"violated at {violation.at_ms}: {violation.invariant}: {violation.detail}"
    if not played.violations:
        yield f"all held: {played.rebalances} rebalances in {played.simulated_ms // 1000} s"


def script_of(text: str) -> Script:
    """Parse the script; text before ``simulate`` and after the rule is ignored. Raises ``ConfigError``."""
    lines = list(enumerate(text.partition(RULE)[0].splitlines(), 1))
    begins = next((n for n, (_, line) in enumerate(lines) if line.startswith("simulate ")), None)
    if begins is None or len(lines) < begins + 3:
        raise ConfigError("not a transcript: it must have the lines simulate SEED, scenario ... and faults ...")
    first, second, third, *plan = lines[begins:]
    seed, scenario = _parsed(_seed_of, first), _parsed(_scenario_of, second)
    faults = _parsed(_faults_of, third)
    fault_of = partial(_fault_of, scenario.processes)
    return Script(seed, scenario, faults, tuple(_parsed(fault_of, line) for line in plan if line[1]))


def _parsed(parse: Callable[[str], Part], numbered: tuple[int, str]) -> Part:
    """Parse a line; an error names its number."""
    number, line = numbered
    try:
        return parse(line)
    except ConfigError as cause:
        raise ConfigError(f"transcript, line {number}: {cause}") from cause


def _seed_of(line: str) -> int:
    try:
        _, seed = line.split()
        return int(seed)
    except ValueError as cause:
        raise ConfigError(f"{line!r}: write simulate SEED; SEED is a whole number") from cause


def _scenario_of(line: str) -> Scenario:
    usual = Scenario()
    scenario = Scenario(**_values(line, "scenario", usual))
    if scenario.processes != len(scenario.late):
        raise ConfigError(
            f"scenario: processes={scenario.processes}, but late={scenario.late} has {len(scenario.late)} starts; "
            "give a start for each process"
        )
    _check_place("scenario: java", max(scenario.java, default=0), scenario.processes)
    if scenario.is_streams_group:
        strange = [name for name in CLASSIC_ONLY if getattr(scenario, name) != getattr(usual, name)]
        if strange:
            raise ConfigError(
                f"scenario: {', '.join(strange)}: no effect in a streams group; leave it out, or protocol"
            )
    return scenario


def _faults_of(line: str) -> Faults:
    return Faults(**_values(line, "faults", NO_FAULTS))


def _fault_of(processes: int, line: str) -> Fault:
    fault = Fault.parse(line)
    _check_place(repr(line), fault.slot, processes)
    return fault


def _check_place(where: str, slot: int, processes: int) -> None:
    if slot >= processes:
        raise ConfigError(f"{where}: place {slot} of {processes}; places are counted from 0")


def _pairs(value: Any, usual: Any) -> str:
    values = {field.name: getattr(value, field.name) for field in fields(value)}
    return "".join(
        f" {name}={repr(item).replace(' ', '')}" for name, item in values.items() if item != getattr(usual, name)
    )


def _values(line: str, name: str, usual: Scenario | Faults) -> Mapping[str, Any]:
    """Return the values that a line gives to fields of ``usual``, which has the default of each."""
    known = {field.name for field in fields(usual)}
    word, *pairs = line.split() or [""]
    if word != name:
        raise ConfigError(f"{line!r}: this line must begin with {name}")
    values = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise ConfigError(f"{name}: {pair!r}: write NAME=VALUE")
        if key not in known:
            raise ConfigError(f"{name}: {key} is unknown; allowed: {', '.join(sorted(known))}")
        values[key] = _literal(text)
        if refusal := _refusal(key, values[key], getattr(usual, key)):
            raise ConfigError(f"{name}: {pair}{refusal}")
    return values


def _literal(text: str) -> object:
    """Return the value of a Python literal, or the text if it is none."""
    try:
        value: object = literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):  # as literal_eval documents
        return text
    return value


def _refusal(name: str, value: object, usual: object) -> str | None:
    """Return why a setting may not have this value; None if it may. ``usual`` is its default, of the right type."""
    match usual:
        case str():
            return None if value in NAMES[name] else f" is unknown; allowed: {', '.join(NAMES[name])}"
        case bool():
            is_allowed, allowed = isinstance(value, bool), "True or False"
        case int():
            numbers = RANGES.get(name, Range(1 if name in POSITIVE else 0))
            is_allowed, allowed = numbers.allows(value), str(numbers)
        case float():
            is_allowed = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
            allowed = "a probability from 0 to 1"
        case _:
            is_allowed = isinstance(value, tuple) and all(map(Range(0).allows, value))
            allowed = "a tuple of whole numbers >= 0, without spaces, such as (0,5000)"
    return None if is_allowed else f": must be {allowed}"
