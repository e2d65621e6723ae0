"""``kstreams-assign history``: its commands and what they print. The work is in the other modules."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from kstreams_assign.errors import ConfigError
from kstreams_assign.history.address import read_out
from kstreams_assign.history.ask.formats import Format
from kstreams_assign.history.secrets import SettingsFile, read_settings
from kstreams_assign.page.file import refuse_unwritable

app = typer.Typer(
    help="The rebalance history: __consumer_offsets as tables, a report, and a what-if of the whole fleet.\n\n"
    "Example: kstreams-assign history follow -b localhost:9092 --out history",
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
)


Out = Annotated[
    str,
    typer.Option("--out", help="Folder of the tables, or an address such as s3a://bucket/history.", metavar="PLACE"),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="A TOML file with tables client and conf: secrets in it are on no command line. Options override it.",
    ),
]
Master = Annotated[str, typer.Option("--master", help="Spark's master: local[*], spark://HOST:7077, yarn, k8s://...")]
Conf = Annotated[list[str] | None, typer.Option("--conf", help="A setting of Spark: KEY=VALUE.")]
AsOfOption = Annotated[
    str | None,
    typer.Option("--as-of", help="Read the tables as they were: a version of rebalances, or a time (ISO 8601)."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")]

_EPOCH = datetime.fromtimestamp(0, UTC)


@app.command()
def follow(
    out: Out,
    bootstrap_servers: Annotated[
        str | None, typer.Option("--bootstrap-servers", "-b", help="Brokers whose groups to follow, HOST:PORT,...")
    ] = None,
    records: Annotated[Path | None, typer.Option("--records", help="Read Parquet files of records instead.")] = None,
    once: Annotated[bool, typer.Option("--once", help="End once everything present is in the tables.")] = False,
    every_s: Annotated[float, typer.Option("--every", min=0.1, help="Seconds from one batch to the next.")] = 5.0,
    client: Annotated[
        list[str] | None,
        typer.Option("--client", help="For the Kafka clients: KEY=VALUE, as in security.protocol=SASL_SSL."),
    ] = None,
    records_a_batch: Annotated[
        int | None,
        typer.Option("--records-a-batch", min=1, help="Most offsets of the topic in a batch.", show_default="500000"),
    ] = None,
    http: Annotated[
        str | None, typer.Option("--http", help="Serve the metrics of the run there.", metavar="HOST:PORT")
    ] = None,
    json_log: Annotated[bool, typer.Option("--json-log", help="Lines of JSON a batch on standard output.")] = False,
    config: Config = None,
    master: Master = "local[*]",
    conf: Conf = None,
) -> None:
    """Tail __consumer_offsets into tables, with Spark. Ctrl-C ends it; the next run continues there.

    Progress goes to standard error.

    Exit status 3 if no broker answers or Spark cannot run.

    Example: kstreams-assign history follow -b localhost:9092 --out history --client security.protocol=SSL

    Example: kstreams-assign history follow -b broker-1:9092 --out s3a://bucket/history --config history.toml
    """
    from kstreams_assign.client_settings import client_pairs, refuse_settings
    from kstreams_assign.config import read_host
    from kstreams_assign.history import live
    from kstreams_assign.history.follow import Settings

    file = _file(config)
    all_client = {**file.client, **client_pairs(client or (), with_kafka_python=False)}
    refuse_settings(all_client, with_kafka_python=False)
    asked = live.Asked(
        out=read_out(out),
        bootstrap_servers=bootstrap_servers,
        records=records,
        master=master,
        client=all_client,
        conf=_all_conf(file, conf),
        settings=Settings(once=once, every_s=every_s),
        records_a_batch=records_a_batch,
        http=read_host("--http", http),
        json_log=json_log,
    )
    try:
        number = live.follow(asked)
    except KeyboardInterrupt:  # before there is anything to end in order
        number = signal.SIGINT
    if number is not None:
        typer.echo("interrupted; nothing is left running, and the next run continues here", err=True)
        raise typer.Exit(128 + number)


@app.command()
def report(
    out: Out,
    html: Annotated[Path, typer.Option("--html", help="The page to write.")],
    group: Annotated[str | None, typer.Option("--group", help="Show only this group.")] = None,
    days: Annotated[
        int | None, typer.Option("--days", min=1, help="Show only this many days before the newest record.")
    ] = None,
    as_of: AsOfOption = None,
    config: Config = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Draw the tables as one self-contained page; progress goes to standard error.

    Of tables at an address, Spark is started for its file system alone; --config and --conf are for that.

    Exit status 2 if the folder has no tables, or not the version or time of --as-of.

    Example: kstreams-assign history report --out history --html history.html

    Example: kstreams-assign history report --out s3a://bucket/history --config s3.toml --html history.html
    """
    import dataclasses
    import json

    from kstreams_assign.history.opening import for_reading
    from kstreams_assign.history.report import report as draw

    refuse_unwritable("--html", html)
    say = partial(typer.echo, err=True)
    with for_reading(read_out(out), _all_conf(_file(config), conf)) as tables:
        summary = draw(tables, html, group=group, days=days, as_of=_as_of(as_of), say=say)
    if as_json:
        typer.echo(json.dumps({**dataclasses.asdict(summary), "html": str(summary.html)}))
        return
    typer.echo("\n".join((f"wrote {summary.html.absolute()}", f"{summary.size:,} bytes", *summary.headlines)))


@app.command()
def ask(
    question: Annotated[str | None, typer.Argument(help="One of the questions; without it they are listed.")] = None,
    out: Out = "history",
    group: Annotated[str | None, typer.Option("--group", help="Ask about this group alone.")] = None,
    days: Annotated[int | None, typer.Option("--days", min=1, help="How far back to look.")] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Look back from this time (ISO 8601); default: the newest rebalance.")
    ] = None,
    as_of: AsOfOption = None,
    how: Annotated[Format, typer.Option("--format", help="Of the rows.")] = Format.TEXT,
    file: Annotated[Path | None, typer.Option("--file", help="Write the rows there instead of printing them.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Also draw a page with a plot.")] = None,
    config: Config = None,
    master: Master = "local[*]",
    conf: Conf = None,
    sql: Annotated[bool, typer.Option("--sql", help="Print a script for DuckDB that asks the same, and end.")] = False,
) -> None:
    """Answer a question about the history: a sentence, a table, and with --html a plot.

    Without a question it lists them. 'savings' replays the rebalances on Spark (--master, --conf).

    Exit status 2 if there is no such question, or the folder has no tables.

    Example: kstreams-assign history ask costly-groups --out history --days 7 --html costly.html

    Example: kstreams-assign history ask deployments --out abfss://tables@account.dfs.core.windows.net/history
    """
    from kstreams_assign.history.ask import answer as asking
    from kstreams_assign.history.ask import show
    from kstreams_assign.history.ask.questions import QUESTIONS, SAVINGS
    from kstreams_assign.history.ask.savings import compare_savings
    from kstreams_assign.history.fleet import ask as replay_all
    from kstreams_assign.history.opening import for_reading

    if question is None:
        typer.echo(show.listed(QUESTIONS.values()))
        return
    if question not in QUESTIONS:
        raise ConfigError(f"ask {question!r}: there is no such question; ask one of {', '.join(QUESTIONS)}")
    until_ms = None if until is None else (_time("--until", until) - _EPOCH) // timedelta(milliseconds=1)
    if as_of is not None and question == SAVINGS.name:
        raise ConfigError(f"--as-of: {question} replays the newest tables; leave it out, or give --until")
    if sql and question == SAVINGS.name:
        raise ConfigError(f"--sql: {question} replays the rebalances, which SQL cannot; leave out --sql")
    if as_of is not None and sql:
        raise ConfigError("--sql: the script reads the newest tables; leave out --as-of, or give --until instead")
    refuse_unwritable("--html", html)
    refuse_unwritable("--file", file)
    place, settings, version = read_out(out), _all_conf(_file(config), conf), _as_of(as_of)
    with for_reading(place, settings) as tables:
        asked = asking.Asked(tables, QUESTIONS[question], days, until_ms, group, version)
        if sql:
            typer.echo(asking.script(asked), nl=False)
            return
        answer = asking.answer(asked)
    if asked.question is SAVINGS:
        answer = compare_savings(answer, group, lambda each, only: replay_all(place, each, master, settings, only))
    if html is not None:
        show.draw(answer, html)
        typer.echo(f"wrote {html.absolute()}", err=True)
    show.write(answer, how, file)


@app.command("what-if")
def what_if(
    out: Out,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE, or KEY=2,4,8 to compare values; may be repeated.")
    ] = None,
    assignor: Annotated[
        list[str] | None, typer.Option("--assignor", help="To compare; default least_movement and high_availability.")
    ] = None,
    config: Config = None,
    master: Master = "local[*]",
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Replay every rebalance of the whole fleet under other settings and assignors, and rank them.

    Example: kstreams-assign history what-if --out history --set max_warmup_replicas=2,8

    Example: kstreams-assign history what-if --out hdfs://namenode/history --master yarn
    """
    import dataclasses
    import json

    from kstreams_assign.history.fleet import alternatives_of, as_text
    from kstreams_assign.history.fleet import ask as replay_all

    alternatives, settings = alternatives_of(change or (), assignor or ()), _all_conf(_file(config), conf)
    answer = replay_all(read_out(out), alternatives, master, settings)
    typer.echo(json.dumps(dataclasses.asdict(answer)) if as_json else as_text(answer))


@app.command()
def generate(
    records: Annotated[Path, typer.Option("--records", help="Folder for the Parquet files.")],
    groups: Annotated[int, typer.Option(min=1, help="How many groups.")] = 1_000,
    members: Annotated[int, typer.Option(min=1, help="Most members of a group.")] = 100,
    generations: Annotated[int, typer.Option(min=1, help="Generations of each group.")] = 10,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes that write.")] = 1,
) -> None:
    """Make the records of a fleet of groups, to try and measure with.

    Example: kstreams-assign history generate --records fleet --groups 100
    """
    from kstreams_assign.history.generate import Fleet, write_fleet

    done = write_fleet(records, Fleet(groups, members, generations, seed), workers)
    typer.echo(
        f"{done.groups:,} groups, {done.generations:,} generations, {done.commits:,} commits, {done.bytes:,} bytes"
    )
    typer.echo(
        f"largest record: {done.largest:,} bytes; a default broker could not hold {len(done.too_large):,} groups"
    )


@app.command()
def prepare() -> None:
    """Make later starts of Spark faster, and fetch its Kafka connector. For images, CI, and those who ask often.

    It keeps an archive of Spark's classes, 170 MB, in the cache (KSTREAMS_ASSIGN_CACHE). Starts then take about two
    thirds of the time.

    Example: kstreams-assign history prepare
    """
    from kstreams_assign.history.archive import make_archive

    typer.echo(f"ready: {make_archive()}", err=True)


@app.command()
def compact(out: Out, config: Config = None, conf: Conf = None) -> None:
    """Merge each past day's many files; delete those replaced over a week ago. history follow does the same.

    Exit status 1 while another run works on the folder. At an address, where no lock holds, that run ends instead.

    Example: kstreams-assign history compact --out history

    Example: kstreams-assign history compact --out gs://bucket/history --config gcs.toml
    """
    from kstreams_assign.history.live import compact_tables

    for merged in compact_tables(read_out(out), _all_conf(_file(config), conf)):
        typer.echo(f"{merged.table} {merged.day}: {merged.files:,} files merged into {merged.files_left:,}")


def _file(config: Path | None) -> SettingsFile:
    return SettingsFile() if config is None else read_settings(config)


def _all_conf(file: SettingsFile, conf: Sequence[str] | None) -> Mapping[str, str]:
    """The settings of Spark: those of the file, and those of the command line over them."""
    return {**file.conf, **_pairs("--conf", conf)}


def _as_of(text: str | None) -> int | datetime | None:
    """A version, or a time."""
    if text is None or text.isdecimal():
        return None if text is None else int(text)
    return _time("--as-of", text, "a version of the table rebalances, or ")


def _time(option: str, text: str, or_else: str = "") -> datetime:
    """A time in UTC, also if it names no zone."""
    try:
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            f"{option} {text!r} is not allowed; give {or_else}a time such as 2026-11-25T12:00:00Z"
        ) from error


def _pairs(option: str, given: Sequence[str] | None) -> Mapping[str, str]:
    pairs = {}
    for text in given or ():
        key, sign, value = text.partition("=")
        if not key or not sign:
            raise ConfigError(f"{option}: write KEY=VALUE; what was given is not shown, as it may be a secret")
        pairs[key] = value
    return pairs
