"""Many seeds, one after the other: what was found, how fast, and the first failing one made small."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import typer

from kstreams_assign.errors import ConfigError
from kstreams_assign.sim.play import Played, Script, play
from kstreams_assign.sim.shrink import shrink
from kstreams_assign.sim.transcript import given, happened, script_of, told, transcript

EVERY = 100
"""Seeds between two lines of progress."""


def simulate(seeds: range, *, faults: bool, as_json: bool, verbose: bool) -> bool:
    """Play these seeds and say what came of them; whether all invariants held."""
    began = perf_counter()
    played = [_one(seed, faults=faults, verbose=verbose, seeds=seeds) for seed in seeds]
    seconds = perf_counter() - began
    rebalances = sum(one.rebalances for one in played)
    failed = [one for one in played if one.violations]
    if as_json:
        facts = {
            "seeds": len(seeds),
            "violations": told(played),
            "rebalances": rebalances,
            "seconds": round(seconds, 3),
        }
        typer.echo(json.dumps(facts))
    else:
        pace = f"{rebalances} rebalances in {seconds:.1f} s, {rebalances / max(seconds, 1e-9):.0f} a second"
        typer.echo(f"{len(seeds)} seeds, {len(failed)} failed; {pace}")
    if failed:
        typer.echo(_smallest(failed[0]), err=as_json)
    return not failed


def replay(path: Path, *, verbose: bool) -> bool:
    """Play a transcript again; whether all invariants hold now."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as cause:
        raise ConfigError(f"--replay {path}: {cause.strerror}; name a transcript that simulate has printed") from cause
    played = play(script_of(text), told=verbose)
    typer.echo("\n".join(happened(played)))
    return not played.violations


def _one(seed: int, *, faults: bool, verbose: bool, seeds: range) -> Played:
    script = Script.draw(seed, faults=faults)
    if verbose:
        typer.echo("\n".join(given(script)), err=True)
    elif (seed - seeds.start) % EVERY == EVERY - 1:
        typer.echo(f"{seed - seeds.start + 1} seeds", err=True)
    played = play(script, told=verbose)
    if verbose:
        typer.echo("\n".join(happened(played)), err=True)
    return played


def _smallest(failed: Played, make_small: Callable[[Played], Played] = shrink) -> str:
    small = make_small(failed)
    prose = f"\nSeed {failed.script.seed} made small; save this and give it to simulate --replay.\n\n"
    return prose + transcript(play(small.script, told=True))
