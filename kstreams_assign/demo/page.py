"""The run as a page (``demo --report``): which worker processed each task when, replicas, moves, facts.

Pure. A row is a task, a colour a worker; red is a task that no worker processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter

from kstreams_assign.demo.app import Row
from kstreams_assign.demo.check import Span, find_spans
from kstreams_assign.demo.fleet_state import FleetState
from kstreams_assign.demo.summary import TERMS, Summary, facts
from kstreams_assign.page import frame
from kstreams_assign.page.frame import Html, markup, tag

TITLE = "A Kafka Streams group scales out and survives a crash"
HOW_TO_READ = (
    "A row is a task and a colour a worker. A thick bar: the worker processes the task's orders. A thin line below: "
    "it keeps a replica of the task's state (pale: a warm-up, else a standby). Red: no worker processes the task. "
    "Triangles are rebalances, filled ones probing; the numbered lines are the scenes below. Rest the pointer on a bar "
    "for details."
)
WIDTH, ROW, TOP, SIDE = 1000, 22, 34, 40
BAR, COPY = 12, 3
"""Heights within a row: of the active task's bar, and of each replica's line below."""
THINNEST = 1.5
"""A move takes a tenth of a second and must be visible."""
MOVES = ("task", "from", "to", "warm", "cause", "gap, ms")
REBALANCES = ("generation", "began, s", "took, ms", "kind")
COLOURS = 3
"""As many as there are workers in the script."""
HELD = {"standby": "keeps a standby of", "warmup": "keeps a warm-up of", "leaving": "closes"}


@dataclass(frozen=True, slots=True)
class Scene:
    """A scene of the script, and when it began (wall-clock milliseconds)."""

    at_ms: int
    says: str


def draw(summary: Summary, fleet_state: FleetState, rows: Iterable[Row], scenes: Sequence[Scene]) -> str:
    """The whole document."""
    spans = find_spans(rows)
    picture = _Picture(fleet_state, spans, scenes)
    moves = [
        (move["task"], move["from"], move["to"], "yes" if move["warm"] else "no", move["cause"], f"{move['gap_ms']:,}")
        for move in summary["moves"]
    ]
    generations = [
        (
            f"{rebalance.generation}",
            f"{picture.s(rebalance.start_ms):.1f}",
            f"{rebalance.end_ms - rebalance.start_ms:,}",
            _kind(rebalance.probing),
        )
        for rebalance in sorted(fleet_state.rebalances.values(), key=attrgetter("generation"))
    ]
    content = [
        tag("h1", TITLE),
        tag("p", HOW_TO_READ, *picture.legend(), class_="note"),
        tag("div", picture.draw(), class_="scroll", tabindex="0", role="region", aria_label="Timeline"),
        tag("ol", *(tag("li", f"{scene.says} ({picture.s(scene.at_ms):.1f} s)") for scene in scenes), class_="scenes"),
        tag("h2", "Result"),
        frame.table(("fact", "measured", "meaning"), facts(summary), "Facts of the run", numbers={1}, class_="narrow"),
        tag("h2", "Moves"),
        frame.table(MOVES, moves, "Tasks that changed their worker, oldest first", numbers={5}, class_="narrow"),
        tag("h2", "Rebalances"),
        frame.table(
            REBALANCES, generations, "From the first join to the last assignment", numbers={0, 1, 2}, class_="narrow"
        ),
        tag("h2", "Terms"),
        tag("dl", *(markup(tag("dt", term), tag("dd", f"{meaning}.")) for term, meaning in TERMS), class_="terms"),
    ]
    return frame.page(TITLE, *content, styles=(frame.asset("demo.css", __package__),))


def _kind(probing: bool) -> str:
    return "probing" if probing else ""


class _Picture:
    """The timeline's coordinates and parts."""

    def __init__(self, fleet_state: FleetState, spans: Sequence[Span], scenes: Sequence[Scene]) -> None:
        self._fleet_state, self._spans, self._scenes = fleet_state, spans, scenes
        tasks = sorted({span.task for span in spans} | {copy.task for copy in fleet_state.copies})
        self._tops = {task: TOP + ROW * number for number, task in enumerate(tasks)}
        self._colours: Mapping[str, int] = {name: at % COLOURS for at, name in enumerate(sorted(fleet_state.workers))}
        ends = [span.to_ms for span in spans] + [rebalance.end_ms for rebalance in fleet_state.rebalances.values()]
        begins = [scene.at_ms for scene in scenes] + [
            rebalance.start_ms for rebalance in fleet_state.rebalances.values()
        ]
        self._from_ms = min(begins, default=0)
        self._to_ms = max(ends, default=self._from_ms + 1)

    def s(self, at_ms: int) -> float:
        """Seconds since the picture begins."""
        return (at_ms - self._from_ms) / 1_000

    def legend(self) -> list[Html]:
        return [tag("span", name, class_=f"worker c{colour}") for name, colour in self._colours.items()]

    def draw(self) -> Html:
        height = TOP + ROW * len(self._tops) + 16
        parts = [*self._scene_lines(height), *self._bars(), *self._pauses(), *self._copies(), *self._ticks()]
        names = (
            tag("text", task, x=f"{SIDE - 6}", y=f"{top + 10}", text_anchor="end") for task, top in self._tops.items()
        )
        end = tag("text", f"{self.s(self._to_ms):.0f} s", x=f"{WIDTH}", y=f"{height - 2}", text_anchor="end")
        rebalances = len(self._fleet_state.rebalances)
        about = f"{len(self._tops)} tasks, {rebalances} rebalances in {self.s(self._to_ms):.0f} seconds"
        return tag("svg", *parts, *names, end, viewBox=f"0 0 {WIDTH} {height}", role="img", aria_label=about)

    def _x(self, at_ms: int) -> float:
        return SIDE + (at_ms - self._from_ms) / max(self._to_ms - self._from_ms, 1) * (WIDTH - SIDE)

    def _bar(self, from_ms: int, to_ms: int, y: int, height: int, kind: str, text: str, *, least: float = 0.0) -> Html:
        width = max(self._x(to_ms) - self._x(from_ms), least)
        about = tag("title", f"{text}, {self.s(from_ms):.1f} to {self.s(to_ms):.1f} s")
        where = {"x": f"{self._x(from_ms):.1f}", "y": f"{y}", "width": f"{width:.1f}", "height": f"{height}"}
        return tag("rect", about, class_=kind, **where)

    def _bars(self) -> Iterator[Html]:
        for task, worker, from_ms, to_ms in self._spans:
            yield self._bar(
                from_ms, to_ms, self._tops[task], BAR, f"c{self._colours[worker]}", f"{worker} processes {task}"
            )

    def _pauses(self) -> Iterator[Html]:
        for task, spans in groupby(self._spans, key=attrgetter("task")):
            for before, after in pairwise(spans):
                ms = after.from_ms - before.to_ms
                if ms > 0:
                    about = f"no worker processes {task}: {ms:,} ms"
                    yield self._bar(before.to_ms, after.from_ms, self._tops[task], BAR, "gap", about, least=THINNEST)

    def _copies(self) -> Iterator[Html]:
        """A line for each worker below the bar, each worker at its own height, so that all replicas are visible."""
        for copy in self._fleet_state.copies:
            colour = self._colours[copy.worker]
            y = self._tops[copy.task] + BAR + COPY * colour
            about = f"{copy.worker} {HELD[copy.role]} {copy.task}"
            yield self._bar(copy.from_ms, copy.to_ms, y, COPY - 1, f"c{colour} {copy.role}", about, least=THINNEST)

    def _ticks(self) -> Iterator[Html]:
        for rebalance in self._fleet_state.rebalances.values():
            probing = ", probing" if rebalance.probing else ""
            about = f"generation {rebalance.generation}, {self.s(rebalance.start_ms):.1f} s{probing}"
            d = f"M{self._x(rebalance.start_ms):.1f} {TOP - 3}l-4 -9h8z"
            yield tag("path", tag("title", about), d=d, class_="tick probing" if rebalance.probing else "tick")

    def _scene_lines(self, height: int) -> Iterator[Html]:
        for number, scene in enumerate(self._scenes, 1):
            x = f"{self._x(scene.at_ms):.1f}"
            yield tag("line", tag("title", scene.says), x1=x, x2=x, y1="14", y2=f"{height - 14}", class_="scene")
            yield tag("text", f"{number}", tag("title", scene.says), x=x, y="11", text_anchor="middle", class_="quiet")
