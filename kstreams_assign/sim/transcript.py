"""Transcripts: a script and its events as a text that can be kept and run again.

Prose, the script, a rule, then the events. Simulating does not belong here (``play``).
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from kstreams_assign.allowed_values import GROUP_PROTOCOLS
from kstreams_assign.errors import ConfigError
from kstreams_assign.sim.faults import Fault, Faults
from kstreams_assign.sim.play import Played, Script
from kstreams_assign.sim.scenario import CLASSIC_ONLY, Scenario

RULE = "----"


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
    lines = text.partition(RULE)[0].splitlines()
    begins = next((n for n, line in enumerate(lines) if line.startswith("simulate ")), None)
    if begins is None or len(lines) < begins + 3:
        raise ConfigError("not a transcript: it must have the lines simulate SEED, scenario ... and faults ...")
    first, scenario, faults, *plan = lines[begins:]
    return Script(
        seed=int(first.split()[1]),
        scenario=_scenario_of(scenario),
        faults=Faults(**_values(faults, "faults", Faults)),
        plan=tuple(Fault.parse(line) for line in plan if line),
    )


def _scenario_of(line: str) -> Scenario:
    scenario = Scenario(**_values(line, "scenario", Scenario))
    if scenario.protocol not in GROUP_PROTOCOLS:
        allowed = ", ".join(GROUP_PROTOCOLS)
        raise ConfigError(f"transcript: scenario: protocol={scenario.protocol!r} is unknown; allowed: {allowed}")
    if scenario.is_streams_group:
        usual = Scenario()
        strange = [name for name in CLASSIC_ONLY if getattr(scenario, name) != getattr(usual, name)]
        if strange:
            raise ConfigError(
                f"transcript: scenario: {', '.join(strange)}: no effect in a streams group; leave it out, or protocol"
            )
    return scenario


def _pairs(value: Any, usual: Any) -> str:
    values = {field.name: getattr(value, field.name) for field in fields(value)}
    return "".join(
        f" {name}={repr(item).replace(' ', '')}" for name, item in values.items() if item != getattr(usual, name)
    )


def _values(line: str, name: str, kind: type[Any]) -> Mapping[str, Any]:
    known = {field.name for field in fields(kind)}
    word, *pairs = line.split()
    if word != name:
        raise ConfigError(f"transcript: {line!r}: this line must begin with {name}")
    pairs_given = dict(pair.split("=", 1) for pair in pairs)
    if strange := pairs_given.keys() - known:
        raise ConfigError(f"transcript: {name}: {min(strange)} is unknown; allowed: {', '.join(sorted(known))}")
    return {key: literal_eval(value) for key, value in pairs_given.items()}
