"""Groups that balance by load, with faults: the group comes to rest, stays there, and is balanced by the loads.

Measures have noise, and every report of a lost process is lost: the rules are the real ones, as is each byte.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from kstreams_assign.assign import is_load_balanced
from kstreams_assign.sim import play as playing
from kstreams_assign.sim.membership import classic
from kstreams_assign.sim.play import Script, play
from kstreams_assign.sim.world import World
from tests.samples import sample


def weighing(seed: int, *, exactly_once: bool = False) -> Script:
    """Return the script of a seed, in a group of ours that balances by load."""
    script = Script.draw(seed, faults=True, exactly_once=exactly_once)
    rng = Random(f"{seed}-loads")
    tasks = script.scenario.partitions + script.scenario.stateless_partitions
    loads = tuple(int(10 ** rng.uniform(2.5, 6)) for _ in range(tasks))
    scenario = replace(script.scenario, java=(), assignor="least_movement", loads=loads)
    return replace(script, scenario=scenario)


def played(script: Script, monkeypatch: pytest.MonkeyPatch) -> tuple[playing.Played, World]:
    """Play a script; return the outcome, and the world as it was at the end."""
    worlds: list[World] = []

    def kept(*arguments: object) -> World:
        worlds.append(World(*arguments))
        return worlds[-1]

    monkeypatch.setattr(playing, "World", kept)
    return play(script), worlds[-1]


def owners_and_threads(world: World) -> tuple[dict, dict]:
    owners = {task: each.process_id for each in world.processes for task in classic(each).adopted.active}
    return owners, {each.process_id: 1 for each in world.processes}


@pytest.mark.parametrize("seed", sample(range(60), 6))
def test_with_faults_the_group_comes_to_rest_balanced_by_load(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    script = weighing(seed, exactly_once=seed % 3 == 0)
    outcome, world = played(script, monkeypatch)
    assert outcome.violations == ()
    owners, threads = owners_and_threads(world)
    assert owners.keys() == world.inputs.keys()
    reported = next(iter(world.processes)).membership.adopted.loads
    assert is_load_balanced(owners, threads, reported)
    true = dict(zip(sorted(world.inputs), script.scenario.loads, strict=True))
    for task, load in reported.items():
        assert abs(load - true[task]) <= max(60, 0.25 * true[task])


def test_the_rest_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that asks whenever its measure differs at all disturbs a group at rest."""
    restless = "kstreams_assign.engine.own_loads.explain_new_loads"
    monkeypatch.setattr(restless, lambda reported, measured, _: "noise" if measured != reported else None)
    monkeypatch.setattr(
        "kstreams_assign.engine.own_loads.settle_loads", lambda known, measured, _: {**known, **measured}
    )
    (violation,) = play(weighing(1)).violations
    assert violation.invariant in ("probing ends", "the group comes to rest")
