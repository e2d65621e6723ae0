"""``kstreams-assign simulate``: the words of the command. The work is in ``simulate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def simulate(
    seed: Annotated[int, typer.Option(min=0, help="The first seed. The same seed goes the same way.")] = 0,
    count: Annotated[int, typer.Option(min=1, help="How many seeds, one after the other.")] = 100,
    faults: Annotated[bool, typer.Option("--faults", help="Let things go wrong before the group has to rest.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The facts as JSON.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Tell on standard error what happens.")] = False,
    replay: Annotated[Path | None, typer.Option(help="Play this transcript of a failed seed again.")] = None,
) -> None:
    """Play groups in simulated time, with the real rules and bytes, and check what must always hold.

    A failing seed is made small and printed as a transcript. Exit status 1 if an invariant did not hold.

    Example: kstreams-assign simulate --seed 1 --count 100 --faults
    """
    from kstreams_assign.sim import simulate as work

    if replay is not None:
        held = work.replay(replay, verbose=verbose)
    else:
        held = work.simulate(range(seed, seed + count), faults=faults, as_json=as_json, verbose=verbose)
    if not held:
        raise typer.Exit(1)
