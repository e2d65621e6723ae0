"""Simulate many seeds: progress, the result, and the first failing seed reduced to a small transcript."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

import typer

from kstreams_assign.errors import ConfigError
from kstreams_assign.sim.jobs import across
from kstreams_assign.sim.play import Played, Script, play
from kstreams_assign.sim.shrink import shrink
from kstreams_assign.sim.spread import Spread
from kstreams_assign.sim.tally import Outcome, Tally
from kstreams_assign.sim.transcript import given, happened, script_of, transcript

SOON_S, EVERY_S = 1, 10
"""Seconds to the first line of progress, and between two lines."""


class Drawn(NamedTuple):
    """What is drawn for each seed."""

    faults: bool
    exactly_once: bool
    streams: bool = False

    def script(self, seed: int) -> Script:
        """Draw."""
        return Script.draw(seed, faults=self.faults, exactly_once=self.exactly_once, streams=self.streams)

    @property
    def options(self) -> str:
        """Return the command line's options for it."""
        protocol = " --protocol streams" * self.streams
        return " --faults" * self.faults + " --guarantee exactly_once_v2" * self.exactly_once + protocol


def simulate(
    seeds: range, drawn: Drawn, *, as_json: bool, verbose: bool, jobs: int = 1, spread: Spread | None = None
) -> Tally:
    """Simulate these seeds, print the result and return it. Ctrl-C ends it with the seeds played so far.

    ``verbose`` needs one process. ``spread`` runs elsewhere, without progress.
    """
    if verbose and (jobs > 1 or spread is not None):
        raise ConfigError("--verbose logs events of one process; leave out --jobs and --spark")
    tally = Tally(len(seeds))
    play_seed = partial(outcome, drawn)
    try:
        if spread is not None:
            _count(tally, spread(play_seed, seeds))
        elif jobs > 1:
            with closing(across(min(jobs, len(seeds)), play_seed, seeds)) as outcomes:
                _count(tally, outcomes)
        else:
            _count(tally, map(partial(_play_verbose, drawn) if verbose else play_seed, seeds))
    except KeyboardInterrupt:
        typer.echo(f"interrupted after {tally.played:,} of {tally.asked:,} seeds", err=True)
    finally:  # also after an error, the result so far is printed
        typer.echo(json.dumps(tally.facts()) if as_json else tally.summary())
    if tally.failed:
        typer.echo(_first_failed(tally, drawn), err=as_json)
    return tally


def outcome(drawn: Drawn, seed: int) -> Outcome:
    """Simulate this seed."""
    played = play(drawn.script(seed))
    return Outcome(seed, played.rebalances, played.violations)


def replay(path: Path, *, verbose: bool) -> bool:
    """Run a transcript again; return whether all invariants hold now."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        why = cause.strerror if isinstance(cause, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"--replay {path}: {why}; give a file with a transcript of simulate") from cause
    played = play(script_of(text), logged=verbose)
    typer.echo("\n".join(happened(played)))
    return not played.violations


def _count(tally: Tally, outcomes: Iterable[Outcome]) -> None:
    """Count outcomes; print each failing seed at once, and the progress from time to time."""
    due_s: float = SOON_S
    for outcome in outcomes:
        tally.add(outcome)
        if outcome.violations:
            first = outcome.violations[0]
            typer.echo(f"seed {outcome.seed} failed: {first.invariant}: {first.detail}", err=True)
        if tally.seconds >= due_s:
            due_s = tally.seconds + EVERY_S
            typer.echo(tally.progress(), err=True)


def _play_verbose(drawn: Drawn, seed: int) -> Outcome:
    """Simulate the seed, and print its script and its events on standard error."""
    script = drawn.script(seed)
    typer.echo("\n".join(given(script)), err=True)
    played = play(script, logged=True)
    typer.echo("\n".join(happened(played)), err=True)
    return Outcome(seed, played.rebalances, played.violations)


def _first_failed(tally: Tally, drawn: Drawn) -> str:
    """Return the transcript of the first failing seed, reduced unless the run was interrupted."""
    script = drawn.script(tally.failed[0].seed)
    if tally.played < tally.asked:
        return f"\nTo reduce it: kstreams-assign simulate --seed {script.seed} --count 1{drawn.options}\n"
    return _smallest(play(script))


def _smallest(failed: Played) -> str:
    small = shrink(failed)
    prose = f"\nSeed {failed.script.seed}, reduced. To run it again, save this text and use simulate --replay FILE.\n\n"
    return prose + transcript(play(small.script, logged=True))
