"""Many seeds: what was found, how fast, and the first failing one made small."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import closing
from functools import partial
from pathlib import Path

import typer

from kstreams_assign.errors import ConfigError
from kstreams_assign.sim.jobs import across
from kstreams_assign.sim.play import Played, Script, play
from kstreams_assign.sim.shrink import shrink
from kstreams_assign.sim.spread import Spread
from kstreams_assign.sim.tally import Outcome, Tally
from kstreams_assign.sim.transcript import given, happened, script_of, transcript

SOON_S, EVERY_S = 1, 10
"""To the first line of progress, and between two of them."""


def simulate(
    seeds: range, *, faults: bool, as_json: bool, verbose: bool, jobs: int = 1, spread: Spread | None = None
) -> Tally:
    """Play these seeds and say what came of them. Ctrl-C ends it with those that were played.

    ``verbose`` is for one process; ``spread`` plays elsewhere, and tells nothing before it is through.
    """
    if verbose and (jobs > 1 or spread is not None):
        raise ConfigError("--verbose tells what happens while it does; leave out --jobs and --spark")
    tally = Tally(len(seeds))
    one_seed = partial(outcome, faults=faults)
    try:
        if spread is not None:
            _count(tally, spread(one_seed, seeds))
        elif jobs > 1:
            with closing(across(min(jobs, len(seeds)), one_seed, seeds)) as outcomes:
                _count(tally, outcomes)
        else:
            _count(tally, map(partial(_told, faults=faults) if verbose else one_seed, seeds))
    except KeyboardInterrupt:
        typer.echo(f"interrupted after {tally.played:,} of {tally.asked:,} seeds", err=True)
    finally:  # whatever ends it, what was found is told
        typer.echo(json.dumps(tally.facts()) if as_json else tally.summary())
    if tally.failed:
        typer.echo(_first_failed(tally, faults=faults), err=as_json)
    return tally


def outcome(seed: int, *, faults: bool) -> Outcome:
    """Play this seed."""
    played = play(Script.draw(seed, faults=faults))
    return Outcome(seed, played.rebalances, played.violations)


def replay(path: Path, *, verbose: bool) -> bool:
    """Play a transcript again; whether all invariants hold now."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as cause:
        raise ConfigError(f"--replay {path}: {cause.strerror}; name a transcript that simulate has printed") from cause
    played = play(script_of(text), told=verbose)
    typer.echo("\n".join(happened(played)))
    return not played.violations


def _count(tally: Tally, outcomes: Iterable[Outcome]) -> None:
    """Tell of a failing seed at once, and now and then how far it is."""
    due_s: float = SOON_S
    for one in outcomes:
        tally.add(one)
        if one.violations:
            first = one.violations[0]
            typer.echo(f"seed {one.seed} failed: {first.invariant}: {first.detail}", err=True)
        if tally.seconds >= due_s:
            due_s = tally.seconds + EVERY_S
            typer.echo(tally.progress(), err=True)


def _told(seed: int, *, faults: bool) -> Outcome:
    """Play it, and tell on standard error what is given and what happens."""
    script = Script.draw(seed, faults=faults)
    typer.echo("\n".join(given(script)), err=True)
    played = play(script, told=True)
    typer.echo("\n".join(happened(played)), err=True)
    return Outcome(seed, played.rebalances, played.violations)


def _first_failed(tally: Tally, *, faults: bool) -> str:
    """Its transcript, made small if there was time to come to the end."""
    script = Script.draw(tally.failed[0].seed, faults=faults)
    if tally.played < tally.asked:
        return f"\nsimulate --seed {script.seed} --count 1{' --faults' * faults} makes it small\n"
    return _smallest(play(script))


def _smallest(failed: Played) -> str:
    small = shrink(failed)
    prose = f"\nSeed {failed.script.seed} made small; save this and give it to simulate --replay.\n\n"
    return prose + transcript(play(small.script, told=True))
