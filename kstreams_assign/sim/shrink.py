"""Reduce a failing script: leave out whatever the violation of the same invariant does not need.

The search lives here. Simulating and writing a script do not belong here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace

from kstreams_assign.sim.faults import Faults
from kstreams_assign.sim.play import Played, Script, play
from kstreams_assign.sim.scenario import CLASSIC_ONLY

PLAYS_MAX = 300
SHORTEST_MS = 10_000
SIMPLER: dict[str, object] = {
    "java": (),
    "static": False,
    "warmup_queue": False,
    "early_probing": False,
    "stateless_partitions": 0,
    "standbys": 0,
    "first_records": 0,
    "partitions": 1,
}


def shrink(failed: Played, again: Callable[[Script], Played] = play) -> Played:
    """Return the smallest script that fails as ``failed`` does, after at most ``PLAYS_MAX`` attempts."""
    invariant, best, left = failed.violations[0].invariant, failed, PLAYS_MAX
    shrinking = True
    while shrinking:
        shrinking = False
        for smaller in _smaller(best.script):
            if left == 0:
                return best
            left -= 1
            played = again(smaller)
            if played.violations and played.violations[0].invariant == invariant:
                best, shrinking = played, True
                break
    return best


def _smaller(script: Script) -> Iterator[Script]:
    """Yield the scripts to try next, the largest reductions first."""
    plan = script.plan
    size = len(plan)
    while size:
        for start in range(0, len(plan), size):
            yield replace(script, plan=plan[:start] + plan[start + size :])
        size //= 2
    for setting in fields(Faults):
        if getattr(script.faults, setting.name):
            yield replace(script, faults=replace(script.faults, **{setting.name: 0.0}))
    for name, value in SIMPLER.items():
        has_effect = not (script.scenario.is_streams_group and name in CLASSIC_ONLY)
        if has_effect and getattr(script.scenario, name) != value:
            yield replace(script, scenario=replace(script.scenario, **{name: value}))  # type: ignore[arg-type]
    for slot in script.scenario.java[:-1]:
        java = tuple(other for other in script.scenario.java if other != slot)
        yield replace(script, scenario=replace(script.scenario, java=java))
    yield from _sooner(script)


def _sooner(script: Script) -> Iterator[Script]:
    scenario = script.scenario
    if any(scenario.late):
        yield replace(script, scenario=replace(scenario, late=tuple(0 for _ in scenario.late)))
    if scenario.safety_ms > SHORTEST_MS:
        yield replace(script, scenario=replace(scenario, safety_ms=scenario.safety_ms * 2 // 3))
    longest = max(script.plan, key=lambda fault: fault.lasts_ms, default=None)
    if longest is not None and longest.lasts_ms > 1_000:
        shorter = longest._replace(lasts_ms=longest.lasts_ms // 2)
        yield replace(script, plan=tuple(shorter if fault is longest else fault for fault in script.plan))
