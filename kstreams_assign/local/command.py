"""``kstreams-assign broker start|stop``: the embedded broker alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from kstreams_assign.topology.new_topics import read_new_topics

TOPICS_WITHIN_S = 30.0

app = typer.Typer(
    help="The embedded Kafka broker alone.\n\nExample: kstreams-assign broker start --json",
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print the facts as one line of JSON.")]


@app.command()
def start(
    as_json: AsJson = False,
    data_dir: Annotated[Path | None, typer.Option(help="Folder for its data; kept. Default: a fresh one.")] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port on 127.0.0.1. Default: a free one.")] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[:PARTITIONS]", help="A topic to create; may be given more than once."),
    ] = None,
) -> None:
    """Start a broker that runs by itself; return once it answers.

    A start that is interrupted leaves nothing behind; if it is killed, "broker stop" ends its broker.

    Example: kstreams-assign broker start --port 9092 --topic words:2 --topic word-counts:2
    """
    from kstreams_assign.adapters.confluent import ClusterAdmin
    from kstreams_assign.local.detached import start_detached
    from kstreams_assign.local.interrupt import undone_by_signals

    topics = read_new_topics(topic or (), "--topic")

    def create_topics(bootstrap_servers: str) -> None:
        ClusterAdmin(bootstrap_servers).create_topics(topics, TOPICS_WITHIN_S)

    with undone_by_signals():
        broker = start_detached(data_dir, port, prepare=create_topics)
    _print(broker.facts(), as_json)
    if not as_json:
        typer.echo(f"next: kstreams-assign topic list -b {broker.bootstrap_servers}", err=True)
        typer.echo("it runs until: kstreams-assign broker stop", err=True)


@app.command()
def prepare() -> None:
    """Fetch what the broker needs, and make its later starts faster. For images and CI.

    Beside the jars it keeps an archive of the broker's classes, 60 MB, in the cache (KSTREAMS_ASSIGN_CACHE). Starts
    then take about half of the time.

    Example: kstreams-assign broker prepare
    """
    from kstreams_assign.local.archive import make_archive
    from kstreams_assign.local.interrupt import undone_by_signals

    with undone_by_signals():
        archive = make_archive()
    typer.echo(f"ready: {archive}", err=True)


@app.command()
def stop(
    as_json: AsJson = False,
    data_dir: Annotated[Path | None, typer.Option(help="The broker that runs on this folder.")] = None,
    pid: Annotated[int | None, typer.Option(help="The broker with this process id.")] = None,
) -> None:
    """Stop a broker that was started with "broker start"; exit 1 when none runs.

    Data in a folder that was named at the start is kept.

    Example: kstreams-assign broker stop
    """
    from kstreams_assign.local.detached import stop_detached

    broker = stop_detached(data_dir, pid)
    if broker is None:
        which = (f" on {data_dir.absolute()}" if data_dir else "") + (f" as process {pid}" if pid else "")
        typer.echo(f"no broker that broker start started runs on this machine{which}", err=True)
        raise typer.Exit(1)
    if as_json:
        _print(broker.facts(), as_json)
        return
    data = "kept" if broker.keeps_data else "deleted"
    typer.echo(f"stopped the broker at {broker.bootstrap_servers}, process {broker.pid}")
    typer.echo(f"its data in {broker.data_dir}: {data}")


def _print(facts: dict[str, str | int], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for name, value in facts.items():
        typer.echo(f"{name}: {value}")
