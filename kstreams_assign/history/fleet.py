"""The fleet's what-if: replay every recorded group under each alternative, in parallel on Spark, and rank the results.

What lives here: how the tables become one row a group, what Spark's tasks do with it, and the ranking. What must not:
the replay itself (``replay``). One group is one row, so groups spread over all cores and machines.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from textwrap import fill
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]

from kstreams_assign.errors import ConfigError
from kstreams_assign.history.address import Out, is_address, pattern_of
from kstreams_assign.history.delta import Snapshot
from kstreams_assign.history.layout import Layout, folder_of
from kstreams_assign.history.opening import opened, working_folder
from kstreams_assign.history.replay import is_classic, replay
from kstreams_assign.history.session import spark_session
from kstreams_assign.history.times import duration
from kstreams_assign.history.writing import refuse_old_tables
from kstreams_assign.observe.changes import Alternative
from kstreams_assign.observe.settings import read_settings

if TYPE_CHECKING:
    from pyspark import StatusTracker
    from pyspark.sql import DataFrame, SparkSession

DEFAULT_ASSIGNORS = ("least_movement", "high_availability")

_PLACE = ("offsets_partition", "offsets_offset")
NEEDED: Mapping[str, tuple[str, ...]] = {
    "rebalances": (*_PLACE, "generation", "protocol", "owner_changes", "cause"),
    "members": (*_PLACE, "process_id", "version", "tags", "offset_sums"),
    "task_placements": (*_PLACE, "task", "role", "process_id"),
    "end_offsets": (*_PLACE, "task", "topic", "partition", "end_offset"),
}
"""The columns of each table that a replay looks at."""

GROUPS_AT_ONCE = {"spark.sql.execution.arrow.maxRecordsPerBatch": "8"}
"""A group's whole history is one row."""

ANSWERS = (
    "`group` string, generation int, offsets_partition int, offsets_offset bigint, alternative int, owner_changes int, "
    "lower_bound int, rounds int, rebalances int, skew double, without_standby int, ends_sampled boolean, "
    "converged boolean, note string, amount bigint"
)
"""One row an answer; or, with ``note``, how many generations of a group something holds for."""

PARTS = 16
"""Of a replay, for each core, so that one can see how far it is, and no core is left with much at the end."""

LOOK_EVERY_S = 0.2
SAID_EVERY_S = 10.0

CONTINUED, RECORDED_CHANGES, RECORDED_ROUNDS = "continued", "recorded owner changes", "recorded rounds"


@dataclass(frozen=True, slots=True)
class Ranked:
    """One alternative over all replayed generations. ``skew`` is the mean, in tasks a thread."""

    assignor: str
    settings: Mapping[str, Any]
    owner_changes: int
    lower_bound: int
    rounds: int
    rebalances: int
    skew: float
    skew_max: float
    without_standby: int
    not_converged: int


@dataclass(frozen=True)
class FleetAnswer:
    """The alternatives, best first: by owner changes, then rounds, then skew.

    ``caught_up``: group -> generations replayed as 'all copies caught up', because their end offsets were not sampled.
    ``left_out``: why -> how many generations.
    """

    ranking: tuple[Ranked, ...]
    groups: int
    replayed: int
    continued: int
    recorded_owner_changes: int
    recorded_rounds: int
    caught_up: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)


def alternatives_of(settings: Iterable[str], assignors: Iterable[str]) -> list[Alternative]:
    """Every assignor with every combination of settings; ``key=2,4,8`` are three values of a number.

    Raises ``ConfigError`` naming the key, the value and what is allowed.
    """
    grid: dict[str, list[Any]] = {}
    for pair in settings:
        key, equals, text = pair.partition("=")
        values = [text] if key.replace(".", "_") == "rack_aware_assignment_tags" else text.split(",")
        for value in values:
            for name, parsed in read_settings([f"{key}{equals}{value}"]).items():
                if name == "assignor":
                    raise ConfigError(f"--set {pair}: name assignors with --assignor")
                grid.setdefault(name, []).append(parsed)
    combined = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    return [
        Alternative(settings=settings, assignor=name)
        for name in tuple(assignors) or DEFAULT_ASSIGNORS
        for settings in combined
    ]


def ask(
    out: Out, alternatives: Sequence[Alternative], master: str, conf: Mapping[str, str], only: str | None = None
) -> FleetAnswer:
    """What ``history what-if`` does: ``what_if`` on a Spark of its own.

    Raises ``ConfigError`` before Spark is started, and what ``spark_session`` does.
    """
    if not is_address(out):
        _check(Layout(folder_of(out)))
    with working_folder(out) as folder:
        log = folder / "_log" / "what-if.log"
        print("starting Spark, which takes some seconds", file=sys.stderr, flush=True)
        with (
            spark_session(master, log=log, settings={**GROUPS_AT_ONCE, **conf}, kafka=False) as session,
            opened(session, out, folder) as layout,
        ):
            print(f"replaying all groups {len(alternatives)} times, once per alternative", file=sys.stderr, flush=True)
            return what_if(session, layout, alternatives, only=only, watch=ReplayProgress().say)


def what_if(
    session: SparkSession,
    layout: Layout,
    alternatives: Sequence[Alternative],
    tasks: int | None = None,
    only: str | None = None,
    watch: Watcher | None = None,
) -> FleetAnswer:
    """Replay the history of ``layout``. Raises ``ConfigError`` where there are no tables.

    ``tasks``: among how many Spark tasks the groups are dealt; None: ``PARTS`` for each core. ``only``: which
    generations, as a condition of Spark's SQL on ``group`` and ``time_ms``; None: all. ``watch`` hears from a thread of
    its own when more tasks have ended.
    """
    groups = _groups(session, layout, only)
    parts = tasks or PARTS * session.sparkContext.defaultParallelism
    spread = groups.repartition(parts)
    with _watched(session, parts, watch):
        rows = spread.mapInArrow(ReplayJob(tuple(alternatives)), ANSWERS).collect()
    return ranked(alternatives, (row.asDict() for row in rows))


Watcher = Callable[[int, int], None]
"""Takes how many of a replay's tasks have ended, and of how many."""


class ReplayProgress:
    """Says on standard error how far a replay is, every ``SAID_EVERY_S``."""

    def __init__(self) -> None:
        self._began_s = self._said_s = time.monotonic()

    def say(self, ended: int, parts: int) -> None:
        now_s = time.monotonic()
        if now_s - self._said_s >= SAID_EVERY_S:
            self._said_s = now_s
            left = duration((now_s - self._began_s) * (parts - ended) / ended * 1000)
            print(f"replayed {ended:,} of {parts:,} parts, about {left} left", file=sys.stderr, flush=True)


@contextmanager
def _watched(session: SparkSession, parts: int, watch: Watcher | None) -> Iterator[None]:
    """Report for the block how many tasks have ended of the stage that has so many."""
    if watch is None:
        yield
        return
    over = threading.Event()
    arguments = (session.sparkContext.statusTracker(), parts, watch, over)
    thread = threading.Thread(target=watch_stage, args=arguments, name="what-if-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def watch_stage(tracker: StatusTracker, parts: int, watch: Watcher, over: threading.Event) -> None:
    """Tell ``watch`` how many tasks have ended of the active stage that has ``parts``, until it is ``over``.

    Without an answer from Spark it ends, too: the thread that asked for the replay raises why.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    ended = 0
    while not over.wait(LOOK_EVERY_S):
        try:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except (Py4JError, OSError):
            return
        now = [stage.numCompletedTasks for stage in stages if stage is not None and stage.numTasks == parts]
        if max(now, default=0) > ended:
            ended = max(now)
            watch(ended, parts)


def _groups(session: SparkSession, layout: Layout, only: str | None) -> DataFrame:
    """One row a group: its name, and a list of rows for each table."""
    from pyspark.sql import functions as f

    _check(layout)
    frames = [_frame(session, layout, table, only) for table in NEEDED]
    rows = reduce(lambda frame, other: frame.unionByName(other, allowMissingColumns=True), frames)
    return rows.groupBy("group").agg(*(f.collect_list(table).alias(table) for table in NEEDED))  # which skips nulls


def _frame(session: SparkSession, layout: Layout, table: str, only: str | None) -> DataFrame:
    """Each row's group, and what is needed of the row under the table's name."""
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_schema

    snapshot = Snapshot(layout.table(table), store=layout.store)
    needed = ("group", "time_ms", *NEEDED[table])
    missing = {*needed} - snapshot.columns
    if missing:
        problem = f"--out {layout.name}: table {table} has no column {min(missing)}, so another release wrote it"
        raise ConfigError(f"{problem}; follow the topic into a new folder")
    schema = from_arrow_schema(pa.schema([snapshot.schema.field(name) for name in needed]))
    files = list(map(pattern_of, snapshot.files()))
    rows = session.read.schema(schema).parquet(*files) if files else session.createDataFrame([], schema)
    if only is not None:
        rows = rows.where(only)
    return rows.select("group", f.struct(*NEEDED[table]).alias(table))


def _check(layout: Layout) -> None:
    refuse_old_tables(layout)
    try:
        Snapshot(layout.table("rebalances"), store=layout.store)
    except FileNotFoundError as error:
        raise ConfigError(f"--out {layout.name}: there is no table rebalances; history follow writes it") from error


@dataclass(frozen=True)
class ReplayJob:
    """What Spark's tasks run: groups as rows in, answers as rows out."""

    alternatives: tuple[Alternative, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [row for group in batch.to_pylist() for row in self.rows(group)]
            yield pa.RecordBatch.from_pylist(rows, schema=answer_schema())

    def rows(self, group: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """One row an answer, then one a note."""
        name, replayed = group["group"], replay(group, self.alternatives)
        for answer in replayed.answers:
            yield {"group": name, **answer._asdict()}
        rebalances = [row for row in group["rebalances"] or () if is_classic(row)]
        notes = {
            CONTINUED: replayed.continued,
            RECORDED_CHANGES: sum(row["owner_changes"] or 0 for row in rebalances),
            RECORDED_ROUNDS: sum(row["cause"] != "follow_up" for row in rebalances),
            **replayed.left_out,
        }
        for note, amount in notes.items():
            yield {"group": name, "note": note, "amount": amount}


def answer_schema() -> Any:
    """``ANSWERS`` as Arrow's schema."""
    types = {
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
    }
    return pa.schema([(name.strip("`"), types[kind]) for name, kind in map(str.split, ANSWERS.split(","))])


def ranked(alternatives: Sequence[Alternative], rows: Iterable[Mapping[str, Any]]) -> FleetAnswer:
    """What the rows of all groups come to."""
    answers: list[list[Mapping[str, Any]]] = [[] for _ in alternatives]
    notes: Counter[str] = Counter()
    caught_up: dict[str, set[int]] = {}
    groups = set()
    for row in rows:
        groups.add(row["group"])
        if row.get("note") is not None:
            notes[row["note"]] += row["amount"]
            continue
        answers[row["alternative"]].append(row)
        if not row["ends_sampled"]:
            caught_up.setdefault(row["group"], set()).add(row["generation"])
    ranking = [_ranked(*pair) for pair in zip(alternatives, answers, strict=True)]
    return FleetAnswer(
        ranking=tuple(sorted(ranking, key=lambda ranked: (ranked.owner_changes, ranked.rounds, ranked.skew))),
        groups=len(groups),
        replayed=len(answers[0]) if answers else 0,
        continued=notes.pop(CONTINUED, 0),
        recorded_owner_changes=notes.pop(RECORDED_CHANGES, 0),
        recorded_rounds=notes.pop(RECORDED_ROUNDS, 0),
        caught_up={name: tuple(sorted(generations)) for name, generations in sorted(caught_up.items())},
        left_out=dict(notes),
    )


def _ranked(alternative: Alternative, answers: Sequence[Mapping[str, Any]]) -> Ranked:
    def total(name: str) -> int:
        return sum(answer[name] for answer in answers)

    skews = [answer["skew"] for answer in answers]
    return Ranked(
        assignor=alternative.assignor or "",
        settings=dict(alternative.settings),
        owner_changes=total("owner_changes"),
        lower_bound=total("lower_bound"),
        rounds=total("rounds"),
        rebalances=total("rebalances"),
        skew=round(sum(skews) / len(skews), 3) if skews else 0.0,
        skew_max=max(skews, default=0.0),
        without_standby=total("without_standby"),
        not_converged=sum(not answer["converged"] for answer in answers),
    )


HEADS = ("owner changes", "lower bound", "rounds", "rebalances", "skew", "worst", "unfinished")
WIDTH = 80


def as_text(answer: FleetAnswer) -> str:
    """For people, at most 80 columns: what was replayed, then each alternative and its numbers, the best first."""
    assumed = sum(map(len, answer.caught_up.values()))
    notes = [
        f"{answer.groups:,} groups: {answer.replayed:,} generations replayed, {answer.continued:,} only follow-ups",
        f"recorded: {answer.recorded_owner_changes:,} owner changes in {answer.recorded_rounds:,} rounds",
        f"{assumed:,} generations of {len(answer.caught_up):,} groups without sampled end offsets: replicas caught up",
        *(f"left out: {amount:,} generations: {why}" for why, amount in answer.left_out.items()),
    ]
    names = [
        f"{number}. {ranked.assignor}: {_settings_text(ranked.settings) or 'settings as recorded, or defaults'}"
        for number, ranked in enumerate(answer.ranking, 1)
    ]
    numbers = [
        (
            *(f"{count:,}" for count in (ranked.owner_changes, ranked.lower_bound, ranked.rounds, ranked.rebalances)),
            *(f"{ranked.skew:.2f}", f"{ranked.skew_max:.2f}", f"{ranked.not_converged:,}"),
        )
        for ranked in answer.ranking
    ]
    widths = [max(map(len, column)) for column in zip(HEADS, *numbers, strict=True)]
    lines = ["  ".join(map(str.rjust, row, widths)) for row in (HEADS, *numbers)]
    ranking = [part for name, line in zip(names, lines[1:], strict=True) for part in (fill(name, WIDTH), line)]
    return "\n".join([*(fill(note, WIDTH, subsequent_indent="  ") for note in notes), "", lines[0], *ranking])


def _settings_text(settings: Mapping[str, Any]) -> str:
    return " ".join(
        f"{key}={','.join(value) if isinstance(value, tuple) else value}" for key, value in settings.items()
    )
