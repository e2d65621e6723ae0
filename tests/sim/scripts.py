"""Scripts of seeds as they were when the seeds were looked for."""

from __future__ import annotations

from dataclasses import replace

from kstreams_assign.sim.play import Script
from kstreams_assign.sim.scenario import Scenario


def at_usual_times(script: Script) -> Script:
    """Return the script with the timeouts that all groups had before others were drawn."""
    usual = Scenario()
    return replace(
        script,
        scenario=replace(
            script.scenario,
            session_timeout_ms=usual.session_timeout_ms,
            rebalance_timeout_ms=usual.rebalance_timeout_ms,
        ),
    )


def before_restarts(seed: int, *, exactly_once: bool, timed: bool = False) -> Script:
    """The script of a seed without restarts, and, unless it is ``timed``, at the usual times."""
    script = Script.draw(seed, faults=True, exactly_once=exactly_once)
    script = replace(script, plan=tuple(fault for fault in script.plan if fault.kind != "restart"))
    return script if timed else at_usual_times(script)
