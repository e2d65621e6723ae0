"""``kstreams-assign demo``: a real broker, a group that scales out warm and survives a kill, a summary.

What lives here: the run from the broker's start to the exit status. However it ends, no process survives it: they are
tied to this process. Everything on disk is in one folder.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from kstreams_assign import Config
from kstreams_assign.adapters.clock import monotonic_ms, wall_ms
from kstreams_assign.demo.app import Row
from kstreams_assign.demo.fleet import WORKER_COMMAND
from kstreams_assign.demo.fleet_state import FleetState
from kstreams_assign.demo.page import Scene, draw
from kstreams_assign.demo.stage import DemoSettings, Stage
from kstreams_assign.demo.story import Story, script
from kstreams_assign.demo.summary import describe, summarize
from kstreams_assign.demo.table import LEGEND, Lines, Scenery, Screen, Show, news
from kstreams_assign.errors import ConfigError
from kstreams_assign.local import LocalBroker
from kstreams_assign.local.interrupt import undone_by_signals
from kstreams_assign.page.file import refuse_unwritable, write_text

TURN_S = 0.1
ABOUT = (
    "A Kafka broker on this machine; three workers join one after the other, one is\n"
    "killed, and at the end every order is checked. It takes one to two minutes and\n"
    "leaves nothing running."
)


def demo(
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the facts to this file.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page to this file: which worker ran each task when, and what moved.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Chooses the orders and the worker that is killed.")] = 7,
    orders_per_s: Annotated[int, typer.Option(min=100, max=20_000, help="Orders produced a second.")] = 3_000,
    plain: Annotated[bool, typer.Option("--plain", help="Print lines instead of a live table.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the folder of the run: state, logs, the broker's data.")
    ] = False,
    user_data: Annotated[
        str, typer.Option(help="Layout of the user-data: apache, or kip441 as in the KIP's text.")
    ] = "apache",
    assignor: Annotated[str, typer.Option(help="The assignor, as in the setting of that name.")] = "least_movement",
) -> None:
    """Watch a real group of Python workers scale out warm and survive a kill.

    Takes one to two minutes. Exit status 1 if an order was lost.

    Example: kstreams-assign demo --json demo.json --report demo.html
    """
    for option, file in (("--json", json_file), ("--report", report)):
        if file is not None:
            folder = file.absolute().parent
            if not folder.is_dir():
                raise ConfigError(f"{option} {file.absolute()}: the folder {folder} does not exist; create it first")
            refuse_unwritable(option, file)
    usual = DemoSettings(seed=seed, orders_per_s=orders_per_s)
    settings = replace(usual, worker={**usual.worker, "user_data": user_data, "assignor": assignor})
    Config.from_mapping({"application_id": "demo", "bootstrap_servers": "localhost:1", **settings.worker})
    show = Lines() if plain or not sys.stderr.isatty() else Screen()
    with undone_by_signals():
        played = run_demo(settings, show, keep=keep)
    summary = played.summary
    try:
        if report is not None:
            write_text("--report", report, draw(summary, played.fleet_state, played.rows, played.scenes))
        if json_file is not None:
            write_text("--json", json_file, json.dumps(summary, indent=2) + "\n")
    finally:
        typer.echo("\n".join(describe(summary)))
    if summary["lost"] or summary["never_in_output"] or summary["unknown"]:
        raise typer.Exit(1)


class Played(NamedTuple):
    """A run that is over."""

    summary: dict[str, Any]
    fleet_state: FleetState
    rows: Sequence[Row]
    scenes: Sequence[Scene]


def run_demo(
    settings: DemoSettings, show: Show, *, keep: bool = False, worker_command: Sequence[str] = WORKER_COMMAND
) -> Played:
    """The whole run. Raises ``DemoFailed``, ``BrokerError`` or ``LocalBrokerError``."""
    typer.echo(f"{ABOUT}\n{LEGEND}\nstarting Apache Kafka {LocalBroker.version} ...", err=True)
    broker_ms = monotonic_ms()
    with _run_folder(keep) as folder, LocalBroker(data_dir=folder / "broker") as broker:
        started_ms = monotonic_ms()
        look = f"kstreams-assign inspect {settings.application_id} -b {broker.bootstrap_servers}"
        typer.echo(
            f"the broker is ready after {(started_ms - broker_ms) / 1000:.1f} s; look from another terminal:", err=True
        )
        typer.echo(f"  {look}", err=True)
        with Stage(broker.bootstrap_servers, folder, settings, worker_command) as stage:
            with show:
                scenes = _play(stage, show)
            typer.echo(f"checking {stage.orders_in:,} orders in stores, changelogs and output ...", err=True)
            findings, rows = stage.findings(), stage.rows()
            summary = summarize(
                stage.fleet_state,
                rows,
                findings,
                broker_version=broker.version,
                seed=settings.seed,
                tasks=settings.partitions,
                orders_in=stage.orders_in,
                acceptable_lag=int(settings.worker["acceptable_recovery_lag"]),
                seconds=(monotonic_ms() - started_ms) / 1000,
            )
            return Played(summary, stage.fleet_state, rows, scenes)


def _play(stage: Stage, show: Show) -> list[Scene]:
    """Play the script; return its scenes."""
    scenes: list[Scene] = []
    story = Story(script(int(stage.settings.worker["acceptable_recovery_lag"])), stage.settings.seed)
    rate = _Rate()
    last_news = ""
    while not story.over:
        for event in stage.turn(TURN_S):
            line = news(event)
            if line is not None:
                last_news = line
                show.news(line)
        for command in story.step(stage.fleet_state, stage.world, monotonic_ms()):
            stage.do(command)
        if not story.over and (not scenes or scenes[-1].says != story.says):
            scenes.append(Scene(wall_ms(), story.says))
        orders_per_s = rate.at(stage.orders_in, monotonic_ms())
        show.update(
            stage.fleet_state,
            Scenery(f"{story.progress} {story.says}", last_news, orders_per_s, stage.orders_in, wall_ms()),
        )
    return scenes


class _Rate:
    """How fast a count grows, over the last second or so."""

    def __init__(self) -> None:
        self._count = self._since_ms = 0
        self._per_s = 0.0

    def at(self, count: int, now_ms: int) -> float:
        if now_ms - self._since_ms >= 1_000:
            self._per_s = (count - self._count) * 1000 / (now_ms - self._since_ms)
            self._count, self._since_ms = count, now_ms
        return self._per_s


@contextmanager
def _run_folder(keep: bool) -> Iterator[Path]:
    """A folder of its own for everything that the run writes. Named first, so that an interrupt can't orphan it."""
    folder = Path(tempfile.gettempdir()) / f"kstreams-assign-demo-{os.getpid()}-{wall_ms()}"
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        if keep:
            typer.echo(f"kept {folder}", err=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
