"""``kstreams-assign topic create|list|produce|consume``: the words of the commands. The work is in ``topics``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from kstreams_assign.insight.command import ClientPairs, Timeout

if TYPE_CHECKING:
    from kstreams_assign.insight.topics import Cluster

app = typer.Typer(
    help="Create and list topics, write records and show them: enough for a first trial, without other tools.\n\n"
    "Example: kstreams-assign topic list -b localhost:9092",
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
)

Servers = Annotated[str, typer.Option("--bootstrap-servers", "-b", help="Brokers of the cluster, HOST:PORT,...")]
AsJson = Annotated[bool, typer.Option("--json", help="The facts as JSON.")]
Topic = Annotated[str, typer.Argument(metavar="NAME", help="The topic.")]


@app.command("create")
def create_topics(
    topics: Annotated[
        list[str], typer.Argument(metavar="NAME[:PARTITIONS]", help="Topics; without a number one partition.")
    ],
    bootstrap_servers: Servers,
    settings: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="KEY=VALUE", help="Setting of the new topics; may be repeated."),
    ] = None,
    client: ClientPairs = None,
    as_json: AsJson = False,
    timeout_s: Timeout = 10.0,
) -> None:
    """Create topics. One that exists with as many partitions is left as it is.

    Example: kstreams-assign topic create words:4 word-counts:4 -b localhost:9092

    Example: kstreams-assign topic create country-codes --config cleanup.policy=compact -b localhost:9092
    """
    from kstreams_assign.insight import topics as work

    with _cluster(bootstrap_servers, client, timeout_s) as cluster:
        work.create(cluster, topics, settings or (), as_json=as_json)


@app.command("list")
def list_topics(
    bootstrap_servers: Servers,
    internal: Annotated[
        bool, typer.Option("--internal", help="Kafka's own topics too, whose names begin with two underscores.")
    ] = False,
    client: ClientPairs = None,
    as_json: AsJson = False,
    timeout_s: Timeout = 10.0,
) -> None:
    """List topics with their partitions, and how many offsets lie between their first and their end.

    That is the number of records, unless a topic is compacted or written in transactions.

    Example: kstreams-assign topic list -b localhost:9092
    """
    from kstreams_assign.insight import topics as work

    with _cluster(bootstrap_servers, client, timeout_s) as cluster:
        work.show_topics(cluster, internal=internal, as_json=as_json)


@app.command("produce")
def produce(
    topic: Topic,
    bootstrap_servers: Servers,
    records: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Records. Without: lines of standard input.")
    ] = None,
    separator: Annotated[
        str, typer.Option("--separator", help="What stands between key and value; '' for values without a key.")
    ] = "=",
    client: ClientPairs = None,
    as_json: AsJson = False,
    timeout_s: Timeout = 10.0,
) -> None:
    """Write records into a topic: KEY=VALUE each, or a value alone. Empty lines are ignored.

    The first separator counts, so a value may hold others. Exit status 1 if there is no such topic.

    Example: kstreams-assign topic produce words -b localhost:9092 to=1 be=2
    """
    from kstreams_assign.insight import topics as work

    lines: Iterable[bytes] = sys.stdin.buffer
    if records:
        lines = map(os.fsencode, records)
    elif sys.stdin.isatty():
        shape = f"KEY{separator}VALUE, or a value alone" if separator else "a value"
        typer.echo(f"one record a line: {shape}; Ctrl-D ends", err=True)
    with _cluster(bootstrap_servers, client, timeout_s) as cluster:
        work.produce(cluster, topic, lines, separator, as_json=as_json)


@app.command("consume")
def consume(
    topic: Topic,
    bootstrap_servers: Servers,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new records, until Ctrl-C.")] = False,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning/--from-end", help="Where to begin; --from-end needs --follow.")
    ] = True,
    records_max: Annotated[int | None, typer.Option("--max", min=1, help="End after so many records.")] = None,
    uncommitted: Annotated[
        bool, typer.Option("--uncommitted", help="Records of open and aborted transactions, too.")
    ] = False,
    group: Annotated[
        str, typer.Option("--group", help="A group that this client may describe; it is not joined.")
    ] = "kstreams-assign",
    client: ClientPairs = None,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON a record.")] = False,
    timeout_s: Timeout = 10.0,
) -> None:
    """Show the records of a topic: partition, offset, key, value. It ends at the topic's end, unless --follow is given.

    Bytes that are not UTF-8 are shown as \\x00; --json writes them as {"hex": ...}. Exit status 1 if there is no such
    topic, 3 if nothing arrives for --timeout seconds before the end.

    Example: kstreams-assign topic consume word-counts -b localhost:9092 --follow
    """
    from kstreams_assign.insight import topics as work

    reading = work.Reading(follow, from_beginning, records_max, uncommitted, group)
    with _cluster(bootstrap_servers, client, timeout_s) as cluster:
        work.consume(cluster, topic, reading, as_json=as_json)


@contextmanager
def _cluster(bootstrap_servers: str, client: list[str] | None, timeout_s: float) -> Iterator[Cluster]:
    from kstreams_assign.client_settings import client_pairs
    from kstreams_assign.insight.client_logs import without_client_logs
    from kstreams_assign.insight.topics import Cluster

    settings = client_pairs(client or (), with_kafka_python=False)
    with without_client_logs(settings):
        yield Cluster(bootstrap_servers, settings, timeout_s)
