"""``kstreams-assign peer SUB``: JSON lines in and out, so that any two implementations can be compared."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated

import typer

from kstreams_assign.peer.lines import Answer, Json, converse

app = typer.Typer(
    help="Run assignors and codecs on JSON lines: one request per line, one answer per line.\n\n"
    "Example: kstreams-assign peer assign < problems.jsonl",
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
)

Seconds = Annotated[float, typer.Option(min=0.0, help="Approximate time to measure each row.")]


@app.command()
def assign() -> None:
    """Place tasks on processes.

    Example: kstreams-assign peer assign < problems.jsonl
    """
    from kstreams_assign.peer.decisions import assign

    _converse(assign)


@app.command()
def assign_threads() -> None:
    """Distribute one process's tasks over its threads.

    Example: kstreams-assign peer assign-threads < problems.jsonl
    """
    from kstreams_assign.peer.decisions import assign_threads

    _converse(assign_threads)


@app.command()
def assign_streams_group() -> None:
    """Place the tasks of a streams group (KIP-1071) on its members, as the broker does.

    Example: kstreams-assign peer assign-streams-group < problems.jsonl
    """
    from kstreams_assign.peer.streams_groups import assign_streams_group

    _converse(assign_streams_group)


@app.command()
def encode_subscription() -> None:
    """Encode a member's user-data as hex.

    Example: kstreams-assign peer encode-subscription < subscriptions.jsonl
    """
    from kstreams_assign.peer.codecs import encode_subscription_line

    _converse(encode_subscription_line)


@app.command()
def decode_subscription() -> None:
    """Decode a member's user-data from hex.

    Example: echo '{"hex": "0000000c0000000c"}' | kstreams-assign peer decode-subscription
    """
    from kstreams_assign.peer.codecs import decode_subscription_line

    _converse(decode_subscription_line)


@app.command()
def encode_assignment() -> None:
    """Encode a member's assignment as hex.

    Example: kstreams-assign peer encode-assignment < assignments.jsonl
    """
    from kstreams_assign.peer.codecs import encode_assignment_line

    _converse(encode_assignment_line)


@app.command()
def decode_assignment() -> None:
    """Decode a member's assignment from hex.

    Example: echo '{"hex": "000000010000000000000000"}' | kstreams-assign peer decode-assignment
    """
    from kstreams_assign.peer.codecs import decode_assignment_line

    _converse(decode_assignment_line)


@app.command()
def bench_assign(
    case: Annotated[str | None, typer.Option(help="TASKSxCLIENTSxTHREADSxSTANDBYS. Default: five cases.")] = None,
    state: Annotated[str | None, typer.Option(help="fresh or join (one more client). Default: both.")] = None,
    assignor: Annotated[str, typer.Option(help="The assignor to time.")] = "high_availability",
    seconds: Seconds = 5.0,
    min_iters: Annotated[int, typer.Option(min=1, help="Fewest calls to measure.")] = 3,
    max_iters: Annotated[int, typer.Option(min=1, help="Most calls to measure.")] = 200,
) -> None:
    """Time an assignor: the first call in a new process (with the import of the assignors), and later calls.

    Example: kstreams-assign peer bench-assign --case 6000x2x1x1 --state join
    """
    from kstreams_assign.peer.bench_assign import bench_assign
    from kstreams_assign.peer.bench_problem import CASES, STATES

    cases, states = [case] if case else CASES, [state] if state else STATES
    _print(bench_assign(cases, states, assignor, seconds, (min_iters, max_iters)))


@app.command()
def bench_codec(
    seconds: Seconds = 3.0,
    members: Annotated[int, typer.Option(min=1, help="The number of members that the leader has.")] = 1000,
) -> None:
    """Time the codecs with 1,000 tasks.

    Example: kstreams-assign peer bench-codec --seconds 1
    """
    from kstreams_assign.peer.bench_codec import bench_codec

    _print(bench_codec(seconds, members))


@app.command()
def info() -> None:
    """Show this peer's versions, assignors and machine.

    Example: kstreams-assign peer info
    """
    from kstreams_assign.peer.info import info

    _print([info()])


def _converse(answer: Answer) -> None:
    converse(sys.stdin.buffer, sys.stdout, answer)


def _print(rows: Iterable[Json]) -> None:
    import json

    for row in rows:
        print(json.dumps(row, separators=(",", ":")), flush=True)
