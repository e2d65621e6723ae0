"""A script and how it went as a text that can be read, kept and played again: prose, what is given, a rule, what happened."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from kstreams_assign.errors import ConfigError
from kstreams_assign.sim.faults import Fault, Faults
from kstreams_assign.sim.play import Played, Script
from kstreams_assign.sim.scenario import Scenario

RULE = "----"


def transcript(played: Played) -> str:
    """All of it."""
    return "\n".join([*given(played.script), RULE, *happened(played)]) + "\n"


def given(script: Script) -> Iterator[str]:
    """Everything that decides how it goes. Settings that are as usual are left out."""
    yield f"simulate {script.seed}"
    yield "scenario" + _pairs(script.scenario, Scenario())
    yield "faults" + _pairs(script.faults, Faults())
    yield from map(str, script.plan)


def happened(played: Played) -> Iterator[str]:
    """The log, and how it ended."""
    yield from played.lines
    for one in played.violations:
        yield f"violated at {one.at_ms}: {one.invariant}: {one.detail}"
    if not played.violations:
        yield f"all held: {played.rebalances} rebalances in {played.simulated_ms // 1000} s"


def script_of(text: str) -> Script:
    """Read what is given; what stands before ``simulate`` and behind the rule is not looked at. Raises ``ConfigError``."""
    lines = text.partition(RULE)[0].splitlines()
    begins = next((n for n, line in enumerate(lines) if line.startswith("simulate ")), None)
    if begins is None or len(lines) < begins + 3:
        raise ConfigError("this is no transcript: it needs the lines simulate SEED, scenario ... and faults ...")
    first, scenario, faults, *plan = lines[begins:]
    return Script(
        seed=int(first.split()[1]),
        scenario=Scenario(**_values(scenario, "scenario", Scenario)),
        faults=Faults(**_values(faults, "faults", Faults)),
        plan=tuple(Fault.parse(line) for line in plan if line),
    )


def _pairs(value: Any, usual: Any) -> str:
    told = {one.name: getattr(value, one.name) for one in fields(value)}
    return "".join(f" {name}={repr(one).replace(' ', '')}" for name, one in told.items() if one != getattr(usual, name))


def _values(line: str, name: str, kind: type[Any]) -> Mapping[str, Any]:
    known = {one.name for one in fields(kind)}
    word, *pairs = line.split()
    if word != name:
        raise ConfigError(f"{line!r} does not begin with {name}")
    found = dict(pair.split("=", 1) for pair in pairs)
    if strange := found.keys() - known:
        raise ConfigError(f"{name} has no {min(strange)}; it has {', '.join(sorted(known))}")
    return {key: literal_eval(value) for key, value in found.items()}
