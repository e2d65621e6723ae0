"""``kstreams-assign simulate``: the words of the commands. The work is in ``simulate`` and ``tables``."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kstreams_assign.sim.policies import Policy
    from kstreams_assign.sim.spread import Spread

app = typer.Typer(rich_markup_mode=None, add_completion=False, invoke_without_command=True)

AsJson = Annotated[bool, typer.Option("--json", help="The facts as JSON.")]
Spark = Annotated[
    str | None,
    typer.Option("--spark", metavar="MASTER", help="Spread the plays over Spark: local[*], spark://HOST:7077."),
]
Html = Annotated[Path | None, typer.Option("--html", help="Write a page, too: timelines of every policy, and plots.")]


@app.callback()
def simulate(
    context: typer.Context,
    seed: Annotated[int, typer.Option(min=0, help="The first seed. The same seed goes the same way.")] = 0,
    count: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 100,
    faults: Annotated[bool, typer.Option("--faults", help="Let things go wrong before the group has to rest.")] = False,
    as_json: AsJson = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Tell on standard error what happens.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="How many processes play.")] = 1,
    replay: Annotated[Path | None, typer.Option(help="Play this transcript of a failed seed again.")] = None,
    spark: Spark = None,
) -> None:
    """Play groups in simulated time, with the real rules and bytes, and check what must always hold.

    The first failing seed is made small and printed as a transcript. Exit status 1 if an invariant did not hold. Ctrl-C
    ends it with what was played so far (exit status 130, if all of that held).

    Example: kstreams-assign simulate --seed 1 --count 100 --faults
    """
    if context.invoked_subcommand is not None:
        return
    from kstreams_assign.sim import simulate as work

    if replay is not None:
        if not work.replay(replay, verbose=verbose):
            raise typer.Exit(1)
        return
    seeds, spread = range(seed, seed + count), _spread(context, spark)
    tally = work.simulate(seeds, faults=faults, as_json=as_json, verbose=verbose, jobs=jobs, spread=spread)
    if tally.failed or tally.played < tally.asked:
        raise typer.Exit(1 if tally.failed else 128 + signal.SIGINT)


@app.command()
def policies(html: Html = None, as_json: AsJson = False) -> None:
    """Policies for rebalances as tables: what each costs when a group starts, grows, shrinks, fails.

    Exit status 1 if an invariant did not hold.

    Example: kstreams-assign simulate policies --html policies.html
    """
    from kstreams_assign.sim.policies import FIRST

    _compare(FIRST, html, as_json=as_json)


@app.command()
def placements(html: Html = None, as_json: AsJson = False) -> None:
    """What other systems would do with the same group: each an assignor, and a member's habits.

    Exit status 1 if an invariant did not hold.

    Example: kstreams-assign simulate placements
    """
    from kstreams_assign.sim.policies import RELATED

    _compare(RELATED, html, as_json=as_json)


@app.command()
def probing(as_json: AsJson = False) -> None:
    """Who asks for a probing rebalance, and what that comes to: at an interval, members themselves, or early.

    Example: kstreams-assign simulate probing
    """
    from kstreams_assign.sim.tables import show

    show.probing(as_json=as_json)


@app.command()
def sweep(
    context: typer.Context,
    svg: Annotated[Path | None, typer.Option(help="Draw it, too; of the assignor least_movement.")] = None,
    spark: Spark = None,
    as_json: AsJson = False,
) -> None:
    """How max_warmup_replicas and the probing interval trade convergence against broker load: 60 plays.

    Example: kstreams-assign simulate sweep --spark 'local[*]' --svg sweep.svg
    """
    from kstreams_assign.sim.tables import show

    show.sweep(_spread(context, spark), svg, as_json=as_json)


def _spread(context: typer.Context, master: str | None) -> Spread | None:
    """On Spark, which stands in a room that this one does not see: the command line brings it (``cli.Joined``)."""
    if master is None:
        return None
    spread = context.obj.spread
    return lambda work, items: spread(work, items, master)


def _compare(chosen: Sequence[Policy], html: Path | None, *, as_json: bool) -> None:
    from kstreams_assign.sim.tables import show

    columns = show.policies(chosen, as_json=as_json)
    if html is not None:
        from kstreams_assign.sim.page.draw import write

        write(html, chosen, columns)
        typer.echo(f"{html} is written", err=True)
    if not show.held(columns):
        raise typer.Exit(1)
