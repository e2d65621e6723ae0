"""The command line: one table of commands, one table of exit statuses.

What lives here: which command is where, and how an error ends the program. What must not: any work; each command
stands in the room that does it, as ``<room>/command.py``, and is imported when it is called. Facts go to standard
output, progress and errors to standard error. Exit status: 0 done, 1 the answer is no (a check failed), 2 the call or
the configuration is wrong, 3 the broker or another part is out of reach. If a reader of standard output ends early
(``| head``), the command ends with 0.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module, metadata
from itertools import groupby
from typing import Annotated, Any, NamedTuple, NoReturn, TextIO

import typer
from typer.core import TyperGroup

from kstreams_assign.errors import (
    BrokerError,
    ConfigError,
    KStreamsAssignError,
    LocalBrokerError,
    QueryRefused,
    SparkError,
    StoreNotAvailable,
    missing_extra,
)


class Joined(NamedTuple):
    """What a command may use of a room that its own does not see: the context's ``obj``."""

    spread: Callable[[Callable[[Any], Any], Sequence[Any], str], list[Any]]


class Entry(NamedTuple):
    """A command: the heading of ``--help`` that it stands under, where it lives, and the line that ``--help`` shows.

    ``place`` is ``module:object``; the object is a function that typer can read, or a Typer with commands of its own.
    """

    heading: str
    place: str
    summary: str


FIRST = "Start here"
RUN = "Run an application"
LOOK = "Look into groups"
DEVELOP = "Simulate and compare"

COMMANDS = {
    "demo": Entry(
        FIRST, "kstreams_assign.demo.command:demo", "A real group on this machine scales out warm, survives a crash."
    ),
    "broker": Entry(FIRST, "kstreams_assign.local.command:app", "Start and stop a Kafka broker on this machine."),
    "topic": Entry(
        FIRST, "kstreams_assign.insight.topic_command:app", "Create and list topics, write records, show records."
    ),
    "run": Entry(
        RUN, "kstreams_assign.processes.command:run", "Run a worker of yours in several supervised processes."
    ),
    "worker": Entry(
        RUN, "kstreams_assign.sidecar.command:worker", "A member for an application in any language, at a socket."
    ),
    "drain": Entry(RUN, "kstreams_assign.sidecar.command:drain", "Let a worker leave without silence."),
    "pause": Entry(RUN, "kstreams_assign.sidecar.pause_command:pause", "Pause tasks: their input waits."),
    "resume": Entry(RUN, "kstreams_assign.sidecar.pause_command:resume", "End the pause of tasks."),
    "clean": Entry(RUN, "kstreams_assign.sidecar.command:clean", "Remove local state, or say what would go and why."),
    "inspect": Entry(LOOK, "kstreams_assign.insight.command:inspect", "Show a live group: who has what, and why."),
    "what-if": Entry(
        LOOK, "kstreams_assign.insight.what_if_command:what_if", "What a change would cost a group, before it is made."
    ),
    "migrate": Entry(
        LOOK,
        "kstreams_assign.insight.migrate_command:migrate",
        "What a change to or from the streams protocol needs.",
    ),
    "transactions": Entry(
        LOOK,
        "kstreams_assign.insight.transactions_command:transactions",
        "Open transactions that keep a group waiting.",
    ),
    "dead-letters": Entry(
        LOOK,
        "kstreams_assign.insight.dead_letters_command:dead_letters",
        "Records that could not be processed: list them, send them again.",
    ),
    "get": Entry(LOOK, "kstreams_assign.insight.get_command:get", "The value of a key, from the process that has it."),
    "history": Entry(LOOK, "kstreams_assign.history.command:app", "Rebalances as tables and a page, with Spark."),
    "decode": Entry(LOOK, "kstreams_assign.insight.command:decode", "User-data and group records, from bytes to JSON."),
    "simulate": Entry(
        DEVELOP, "kstreams_assign.sim.command:app", "Groups in simulated time: checked by seed, policies compared."
    ),
    "peer": Entry(DEVELOP, "kstreams_assign.peer.command:app", "Our assignors and codecs over JSON lines, to compare."),
}

EXIT_STATUS: tuple[tuple[type[KStreamsAssignError], int], ...] = (
    # the first that fits
    (ConfigError, 2),
    (BrokerError, 3),
    (LocalBrokerError, 3),
    (SparkError, 3),
    (StoreNotAvailable, 3),
    (QueryRefused, 2),
    (KStreamsAssignError, 1),
)


_ALLOWED = {
    # the checker's name of a problem -> what the option takes
    "int_parsing": "a whole number",
    "float_parsing": "a number",
    "greater_than_equal": "a number",
    "less_than_equal": "a number",
}


class CommandTable(TyperGroup):
    """Commands of ``COMMANDS``, imported when they are asked for."""

    # Any: typer carries a click of its own and does not export its types.
    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - click's signature
        entry = COMMANDS.get(cmd_name)
        return _load(entry.place) if entry else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Suggest the command that a misspelt one may mean; typer suggests only commands that are imported already."""
        name = args[0] if args else ""
        if name not in COMMANDS and not ctx.resilient_parsing and (close := get_close_matches(name, COMMANDS, 1)):
            ctx.fail(f"No such command {name!r}. Did you mean {close[0]!r}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a value that an option refuses is explained in this project's words."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = _refusal(error) or error.message
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - click's signature
        """List the commands from the table: click would import each one for its line."""
        for heading, rows in groupby(COMMANDS.items(), key=lambda row: row[1].heading):
            with formatter.section(heading):
                formatter.write_dl([(name, entry.summary) for name, entry in rows])


def _refusal(error: typer.BadParameter) -> str | None:
    """Return which value an option refuses and what it takes; None for an error that the table does not have."""
    cause: Any = error.__cause__
    for problem in cause.errors() if hasattr(cause, "errors") else ():
        if kind := _ALLOWED.get(problem["type"]):
            least, most = (getattr(error.param, bound, None) for bound in ("min", "max"))
            bounds = " from" if most is not None else " of at least"
            allowed = kind + (f"{bounds} {least}" if least is not None else "") + (f" to {most}" if most else "")
            return f"{problem['input']!r}: must be {allowed}"
    return None


app = typer.Typer(cls=CommandTable, rich_markup_mode=None, no_args_is_help=True, pretty_exceptions_enable=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kstreams-assign {metadata.version('kstreams-assign')}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback has seen to it
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Members, leaders and insight for Kafka Streams groups.

    Example: kstreams-assign demo
    """
    context.obj = Joined(spread=_spread)


def _spread(work: Callable[[Any], Any], items: Sequence[Any], master: str) -> list[Any]:
    from kstreams_assign.history.spread import spread

    return spread(work, items, master)


def main() -> None:
    """Run the command that the arguments name, and end with its exit status."""
    if sys.stdout is sys.__stdout__ and sys.stdout is not None:
        sys.stdout = _until_its_reader_ends(sys.stdout)
    try:
        app()
    except ModuleNotFoundError as error:
        missing = missing_extra(error)
        if missing is None:
            raise
        _fail(missing)
    except KStreamsAssignError as error:
        _fail(error)
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()


def _fail(error: KStreamsAssignError) -> NoReturn:
    """End with the error, whose text may have names that other members chose."""
    from kstreams_assign.insight.record_text import printable

    typer.echo(printable(f"kstreams-assign: {error}", keep="\n\t"), err=True)
    sys.exit(exit_status(type(error)))


class _Pipe(io.FileIO):
    """Standard output that ends the command at the first write that fails.

    The exit status is 0 if only the reader has ended. Later writes are dropped.
    """

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as cause:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if not isinstance(cause, BrokenPipeError):
                typer.echo(f"kstreams-assign: cannot write to standard output: {cause}", err=True)
            raise SystemExit(not isinstance(cause, BrokenPipeError)) from None


def _until_its_reader_ends(out: TextIO) -> TextIO:
    """``out``, but typer takes no notice of a closed pipe, which it would answer with exit status 1.

    What its encoding does not have (a terminal that is ASCII only) is written as an escape.
    """
    pipe = io.BufferedWriter(_Pipe(out.fileno(), "wb", closefd=False))
    errors = "backslashreplace" if out.errors == "strict" else out.errors
    return io.TextIOWrapper(pipe, out.encoding, errors, line_buffering=out.isatty())


def exit_status(error: type[KStreamsAssignError]) -> int:
    """The exit status that tells a script of this kind of error."""
    return next(status for kind, status in EXIT_STATUS if issubclass(error, kind))


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    target = getattr(import_module(module), name)
    if isinstance(target, typer.Typer):
        return typer.main.get_command(target)
    alone = typer.Typer(rich_markup_mode=None, add_completion=False)
    alone.command()(target)
    return typer.main.get_command(alone)
