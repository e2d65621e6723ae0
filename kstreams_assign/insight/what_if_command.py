"""``kstreams-assign what-if``: the words of the command. The work is in ``what_if``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kstreams_assign.insight.command import ClientPairs, Servers, Timeout, TopologyFile

Processes = list[str] | None


def what_if(
    group: Annotated[str, typer.Argument(metavar="GROUP|FILE", help="A group, or a snapshot saved by inspect --save.")],
    bootstrap_servers: Servers = None,
    add: Annotated[int, typer.Option(min=0, help="Add so many processes of ours.")] = 0,
    add_java: Annotated[int, typer.Option(min=0, help="Add so many Java processes.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="Members (stream threads) of each added process.")] = 1,
    remove: Annotated[
        Processes, typer.Option(help="Take a process away: its id or how that begins, member id, client id, endpoint.")
    ] = None,
    replace: Annotated[Processes, typer.Option(help="An empty process comes in place of this one.")] = None,
    settings: Annotated[Processes, typer.Option("--set", help="Change a setting: KEY=VALUE.")] = None,
    assignor: Annotated[
        Processes, typer.Option(help="Compare with this assignor. Default: least_movement and high_availability.")
    ] = None,
    current: Annotated[
        Processes, typer.Option(help="A setting that the group has now, where it does not show: KEY=VALUE.")
    ] = None,
    topology: TopologyFile = None,
    restore_rate: Annotated[
        int | None, typer.Option(min=1, help="Offsets that one process restores in a second.")
    ] = None,
    since: Annotated[
        Path | None, typer.Option(help="An earlier snapshot: measure the restore rate from how far copies came since.")
    ] = None,
    rebalances: Annotated[
        int | None,
        typer.Option(min=1, show_default="2000", help="Play at most so many rebalances of each alternative."),
    ] = None,
    client: ClientPairs = None,
    as_json: Annotated[bool, typer.Option("--json", help="The facts as JSON.")] = False,
    timeout_s: Timeout = 10.0,
) -> None:
    """Play a group on with a change before it is made: owner changes, rebalances, time, what is at risk on the way.

    Changes given together happen together. The output compares assignors, and the group with and without what --set
    changes. Of a group of the streams protocol (KIP-1071) it shows what the broker would move, for how long those tasks
    would be silent (with --restore-rate), and a classic group beside it. Exit status 1 if there is no such group or it
    has no members, 3 if no broker answers.

    A change of the assignor in a group of hundreds of processes moves thousands of tasks a few at a time, and each of
    these rebalances takes up to seconds to play: name the one --assignor that you want, or set --rebalances.

    Example: kstreams-assign what-if orders-app -b localhost:9092 --add 1 --set max_warmup_replicas=8

    Example: kstreams-assign what-if orders-app -b localhost:9092 --add 1 --restore-rate 200000
    """
    from kstreams_assign.insight import inspect
    from kstreams_assign.insight import what_if as work

    wanted = inspect.asked(group, bootstrap_servers, topology, current or (), client or (), timeout_s)
    change = work.Change(
        add=add,
        add_java=add_java,
        threads=threads,
        remove=remove or (),
        replace=replace or (),
        settings=settings or (),
        assignors=assignor or (),
        restore_rate=restore_rate,
        since=since,
        rebalances=rebalances,
    )
    work.what_if(wanted, change, as_json=as_json)
