"""``kstreams-assign simulate``: the commands, their options and help. The work is in ``simulate`` and ``tables``."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kstreams_assign.allowed_values import GroupProtocol, Guarantee
from kstreams_assign.errors import ConfigError

if TYPE_CHECKING:
    from kstreams_assign.sim.policies import Policy
    from kstreams_assign.sim.spread import Spread


app = typer.Typer(rich_markup_mode=None, add_completion=False, invoke_without_command=True)

SPARK_MASTER = re.compile(r"local(\[(\d+|\*)(\s*,\s*\d+)?\])?|local-cluster\[.+\]|yarn|(spark|k8s)://.+")
"""Masters that Spark knows; it takes seconds to refuse another."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Spark = Annotated[
    str | None,
    typer.Option("--spark", metavar="MASTER", help="Run the simulations on Spark: local[*] or spark://HOST:7077."),
]
Html = Annotated[
    Path | None, typer.Option("--html", help="Also write an HTML page with plots and a timeline of each policy.")
]


@app.callback()
def simulate(
    context: typer.Context,
    seed: Annotated[int, typer.Option(min=0, help="The first seed. A seed always gives the same simulation.")] = 0,
    count: Annotated[int, typer.Option(min=1, help="Number of seeds to simulate.")] = 100,
    faults: Annotated[
        bool, typer.Option("--faults", help="Inject crashes, pauses, lost messages and other faults.")
    ] = False,
    guarantee: Annotated[
        Guarantee,
        typer.Option(help="Commit as with this processing_guarantee; a seed draws the same group and faults for both."),
    ] = Guarantee.AT_LEAST_ONCE,
    protocol: Annotated[
        GroupProtocol,
        typer.Option(help="Simulate groups of this group_protocol; in a streams group the coordinator assigns."),
    ] = GroupProtocol.CLASSIC,
    as_json: AsJson = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log each event on standard error.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Number of processes to use.")] = 1,
    replay: Annotated[
        Path | None,
        typer.Option(
            help="Run the transcript of a failed seed again, in place of seeds; only --verbose may be beside it."
        ),
    ] = None,
    spark: Spark = None,
) -> None:
    """Simulate groups with the real rules and bytes, and check the invariants.

    Each seed draws a group and its settings, and with --faults its faults.
    One classic group in five has members that behave as Java's (J0, J1, ...
    in logs). A streams group has neither these nor static members, and no
    warm-ups or probes.
    The invariants: one owner a task, no lost work, no deleted state that was
    reported, an end to probing, and others; exactly once, each input has its
    results once.

    The first seed that fails is reduced to a small transcript and printed.
    Exit status: 0 all invariants held, 1 a violation, 2 a wrong call or
    transcript, 130 after Ctrl-C.

    \b
    Examples:
      kstreams-assign simulate --seed 1 --count 100 --faults
      kstreams-assign simulate --count 100 --faults --guarantee exactly_once_v2
      kstreams-assign simulate --count 100 --faults --protocol streams
      kstreams-assign simulate --count 100000 --faults --jobs 4 --json
      kstreams-assign simulate --replay failed.txt --verbose
    """
    if (command := context.invoked_subcommand) is not None:
        _refuse_options(
            context,
            f"simulate {command} compares what members of classic groups decide; its options follow its name "
            f"(see simulate {command} --help)",
        )
        return
    from kstreams_assign.sim import simulate as work

    if replay is not None:
        _refuse_options(
            context, "--replay prints a text; the transcript names the protocol and all else", "replay", "verbose"
        )
        if not work.replay(replay, verbose=verbose):
            raise typer.Exit(1)
        return
    seeds, spread = range(seed, seed + count), _spread(context, spark)
    drawn = work.Drawn(
        faults=faults,
        exactly_once=guarantee is Guarantee.EXACTLY_ONCE,
        streams=protocol is GroupProtocol.STREAMS,
    )
    tally = work.simulate(seeds, drawn, as_json=as_json, verbose=verbose, jobs=jobs, spread=spread)
    if tally.failed or tally.played < tally.asked:
        raise typer.Exit(1 if tally.failed else 128 + signal.SIGINT)


@app.command()
def policies(html: Html = None, as_json: AsJson = False) -> None:
    """Compare rebalance policies: their costs when a group starts, grows, shrinks or fails.

    Exit status 1 if an invariant did not hold.

    Example: kstreams-assign simulate policies --html policies.html
    """
    from kstreams_assign.sim.policies import FIRST

    _compare(FIRST, html, as_json=as_json)


@app.command()
def placements(html: Html = None, as_json: AsJson = False) -> None:
    """Compare the placement rules of other systems, each applied to the same group.

    Exit status 1 if an invariant did not hold.

    Example: kstreams-assign simulate placements
    """
    from kstreams_assign.sim.policies import RELATED

    _compare(RELATED, html, as_json=as_json)


@app.command()
def probing(as_json: AsJson = False) -> None:
    """Compare triggers of probing rebalances: an interval, each member, or early probing.

    Example: kstreams-assign simulate probing
    """
    from kstreams_assign.sim.tables import show

    show.probing(as_json=as_json)


@app.command()
def sweep(
    context: typer.Context,
    svg: Annotated[Path | None, typer.Option(help="Also draw the results of least_movement as an SVG file.")] = None,
    spark: Spark = None,
    as_json: AsJson = False,
) -> None:
    """Show how max_warmup_replicas and the probing interval trade speed for broker load.

    Runs 60 simulations.

    Example: kstreams-assign simulate sweep --spark 'local[*]' --svg sweep.svg
    """
    from kstreams_assign.page.file import refuse_unwritable
    from kstreams_assign.sim.tables import show

    refuse_unwritable("--svg", svg)
    show.sweep(_spread(context, spark), svg, as_json=as_json)


def _refuse_options(context: typer.Context, why: str, *allowed: str) -> None:
    """Raise ``ConfigError`` if options are given that have no effect: all but those with the names ``allowed``."""
    given = [
        param.opts[0]
        for param in context.command.params
        if param.name is not None and param.name not in allowed and _is_given(context, param.name)
    ]
    if given:
        raise ConfigError(f"{why}: leave out {', '.join(given)}")


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _spread(context: typer.Context, master: str | None) -> Spread | None:
    """Return Spark's spread, which the command line brings (``cli.Joined``): this room must not import Spark's."""
    if master is None:
        return None
    if not SPARK_MASTER.fullmatch(master):
        raise ConfigError(f"--spark {master!r}: must be local[*], spark://HOST:PORT, yarn or k8s://...")
    spread = context.obj.spread
    return lambda work, items: spread(work, items, master)


def _compare(chosen: Sequence[Policy], html: Path | None, *, as_json: bool) -> None:
    from kstreams_assign.page.file import refuse_unwritable
    from kstreams_assign.sim.tables import show

    refuse_unwritable("--html", html)
    columns = show.policies(chosen, as_json=as_json)
    if html is not None:
        from kstreams_assign.sim.page.draw import write

        write(html, chosen, columns)
        typer.echo(f"wrote {html}", err=True)
    if not show.all_invariants_hold(columns):
        raise typer.Exit(1)
