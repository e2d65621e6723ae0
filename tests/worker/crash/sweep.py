"""Record each scenario once, then repeat it for each point: kill, check, let a successor finish, check again."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from kstreams_assign.events import CommitRefusedEvent, Event, JoiningEvent, LostEvent, TransactionAbortedEvent
from tests.worker.crash import app
from tests.worker.crash.calls import after_only
from tests.worker.crash.checks import Left, wrong_answers, wrong_folders, wrong_state
from tests.worker.crash.points import Point, Recording, all_points, busiest_phases, point_per_site
from tests.worker.crash.reading import end_offsets, read_folders, read_topics, settled
from tests.worker.crash.stage import (
    AHEAD_BY,
    EXACT,
    HEIR,
    SEEDED,
    SUCCESSOR,
    VICTIM,
    Actor,
    Cluster,
    Stage,
    Stuck,
    until,
)
from tests.worker.crash.victim import RUNNING

SAME, EMPTY, ANOTHER = "same directory", "empty directory", "another process"
MENDED, NOT_REACHED, WRONG = WORDS = "mended", "not reached", "wrong"
TRIES = 3
LIVELY_MS, QUIET_MS = 200, 2_000
"""Heartbeats. Who is expelled is to learn it by a commit, and not by the heartbeat in between."""


def half_restored(stage: Stage) -> None:
    """One task has half of its state on disk, the other none."""
    stage.store_at(0, SEEDED // 2)


def spoilt(stage: Stage) -> None:
    """One task's store is ahead of its changelog, the other's cannot be opened."""
    stage.store_at(0, SEEDED, says=SEEDED + AHEAD_BY)
    Path(stage.store_at(1, SEEDED), "CURRENT").write_text("nonsense\n", encoding="utf-8")


def killed_before(stage: Stage) -> None:
    """A process was killed in this directory; its member stays in the group until its session ends."""
    stage.killed_at_work()


def nothing(_stage: Stage) -> None:
    """No process has worked here before."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A watched process's run. ``first`` names the phase until its tasks run; ``phases``: the phases to test.

    ``rebalance`` is the phase in which it loses tasks: to another process, which may be the successor (``ANOTHER``),
    or, ``expelled``, because the broker takes it for dead. ``purges``: its answers go through a topic whose consumed
    records are deleted.
    """

    first: str
    phases: tuple[str, ...]
    prepare: Callable[[Stage], None]
    successors: tuple[str, ...]
    seeded: int = SEEDED
    rebalance: str | None = None
    standbys: int = 0
    expelled: bool = False
    purges: bool = False

    @property
    def breaks(self) -> tuple[type[Event], ...]:
        """Return the events that begin ``rebalance``."""
        return (CommitRefusedEvent, TransactionAbortedEvent, LostEvent) if self.expelled else (JoiningEvent,)

    @property
    def looks_whole(self) -> bool:
        """Whether the folders were right before the process began."""
        return self.prepare is not spoilt


SCENARIOS = (
    Scenario("restore", ("restore", "commit", "close"), half_restored, (SAME, EMPTY)),
    Scenario("start", ("start",), nothing, (SAME, EMPTY), seeded=0),
    Scenario("mend", ("mend",), spoilt, (SAME,)),
    Scenario("return", ("return",), killed_before, (SAME,)),
    Scenario("restore", ("commit",), half_restored, (SAME,), purges=True),
    Scenario("alone", ("hand-over",), half_restored, (SAME, ANOTHER), rebalance="hand-over"),
    Scenario("alone", ("demotion",), half_restored, (SAME, ANOTHER), rebalance="demotion", standbys=1),
    Scenario("alone", ("expelled",), half_restored, (SAME, EMPTY), rebalance="expelled", expelled=True),
)
PHASES = tuple(dict.fromkeys(phase for scenario in SCENARIOS for phase in scenario.phases))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one point. ``reached``: the process made that call, and died there."""

    point: Point
    successor: str
    reached: bool
    wrong: list[str]
    seconds: float
    folder: Path

    @property
    def too_late(self) -> bool:
        """Whether this run made fewer calls than the recorded one."""
        return not (self.reached or self.wrong) and self.point.nth > 1

    @property
    def word(self) -> str:
        return WRONG if self.wrong else MENDED if self.reached else NOT_REACHED


@dataclass(slots=True)
class Sweep:
    """Runs points on one broker, several at a time."""

    cluster: Cluster
    folder: Path
    guarantee: str
    at_once: int = 4
    run: str = "crash"
    planted: str | None = None
    until_s: float = float("inf")
    """Nothing is begun after this moment of the monotonic clock."""
    _numbers: Iterator[int] = field(default_factory=count)

    def record(self, scenario: Scenario) -> Recording:
        """Return the calls of a process that is not killed; raise ``AssertionError`` if even that goes wrong."""
        (stage,) = self._stages([scenario])
        seen, wrong = self._recorded(stage, scenario)
        assert not wrong, wrong
        return {(phase, site): n for (phase, site), n in seen.items() if phase in scenario.phases}

    def play(self, scenario: Scenario, points: Sequence[Point]) -> Iterator[Outcome]:
        """Run each point once; yield each outcome as it ends; successors alternate."""
        kinds = [scenario.successors[number % len(scenario.successors)] for number in range(len(points))]
        plays = list(zip(points, kinds, strict=True))
        step = self.at_once * 8
        for some in (plays[at : at + step] for at in range(0, len(plays), step)):
            if time.monotonic() > self.until_s:
                return
            stages = self._stages([scenario] * len(some))
            with ThreadPoolExecutor(self.at_once) as pool:
                under_way = [
                    pool.submit(self._play, stage, scenario, point, kind)
                    for stage, (point, kind) in zip(stages, some, strict=True)
                ]
                ended = [play.result() for play in under_way]
            self.cluster.delete(stage.name for stage, outcome in zip(stages, ended, strict=True) if not outcome.wrong)
            too_late = [outcome for outcome in ended if outcome.too_late]
            yield from (outcome for outcome in ended if not outcome.too_late)
            yield from self.play(scenario, [replace(outcome.point, nth=outcome.point.nth // 2) for outcome in too_late])

    def play_until_reached(self, scenario: Scenario, points: Sequence[Point]) -> Iterator[Outcome]:
        """As ``play``; try points that no run reached in other scenarios' runs, as runs differ."""
        missed = list(points)
        for _ in range(TRIES):
            ended = list(self.play(scenario, missed))
            missed = [outcome.point for outcome in ended if outcome.word == NOT_REACHED]
            yield from (outcome for outcome in ended if outcome.word != NOT_REACHED)
        yield from (outcome for outcome in ended if outcome.word == NOT_REACHED)

    def _stages(self, scenarios: Sequence[Scenario]) -> list[Stage]:
        names = [f"{self.run}-{next(self._numbers)}" for _ in scenarios]
        made = [
            Stage(
                self.cluster,
                name,
                self.folder / name,
                self.guarantee,
                seeded=scenario.seeded,
                standbys=scenario.standbys,
                heartbeat_ms=QUIET_MS if scenario.expelled else LIVELY_MS,
                purges=scenario.purges,
            )
            for name, scenario in zip(names, scenarios, strict=True)
        ]
        self.cluster.create(names, changelogs=scenarios[0].seeded > 0)
        return made

    # --- one run ----------------------------------------------------------------

    def _recorded(self, stage: Stage, scenario: Scenario) -> tuple[Recording, list[str]]:
        try:
            victim = self._begin(stage, scenario, None)
            seen = victim.recording()
            assert victim.ended() == 0, f"the victim ended with {victim.ended()}: {victim.log}"
            return seen, self._finish(stage, scenario, SAME, self.cluster.committed_offsets(stage.name))
        finally:
            stage.end()

    def _play(self, stage: Stage, scenario: Scenario, point: Point, successor: str) -> Outcome:
        began = time.monotonic()
        reached, wrong = False, []
        try:
            victim = self._begin(stage, scenario, point)
            code = victim.ended()
            reached = code == -signal.SIGKILL
            wrong += [] if reached or code == 0 else [f"the victim ended with {code}: {victim.log}"]
            committed = self.cluster.committed_offsets(stage.name)
            wrong += self._folders(stage, VICTIM, in_bulk=point.phase == scenario.first) if scenario.looks_whole else []
            self.cluster.remove_member(stage.name, VICTIM)
            wrong += self._finish(stage, scenario, successor, committed)
        except (Stuck, AssertionError) as failure:
            wrong.append(str(failure))
        finally:
            stage.end()
        return Outcome(point, successor, reached, wrong, time.monotonic() - began, stage.folder)

    def _begin(self, stage: Stage, scenario: Scenario, point: Point | None) -> Actor:
        stage.seed()
        scenario.prepare(stage)
        victim = stage.start(
            VICTIM,
            stage.state_of(VICTIM),
            watched=True,
            phase=scenario.first,
            rebalance=scenario.rebalance,
            breaks=scenario.breaks,
            feeds=scenario.rebalance is None or scenario.expelled,
            point=point,
            planted=self.planted,
        )
        if scenario.rebalance and victim.said("commit") and self._rebalanced(stage, scenario, victim):
            stage.until_done(victim)
            victim.ask_to_close()
        return victim

    def _rebalanced(self, stage: Stage, scenario: Scenario, victim: Actor) -> bool:
        """Whether the process reached the rebalance."""
        if scenario.expelled:
            assert scenario.rebalance is not None
            stage.floor = self.cluster.committed_offsets(stage.name)
            self.cluster.remove_member(stage.name, VICTIM)
            return victim.said(scenario.rebalance)
        return victim.outlives(stage.start(HEIR, stage.state_of(HEIR)), RUNNING)

    def _finish(self, stage: Stage, scenario: Scenario, successor: str, committed: Mapping[int, int]) -> list[str]:
        """Let the successor do the rest, and check the result."""
        if successor != ANOTHER:
            stage.start(SUCCESSOR, stage.state_of(VICTIM if successor == SAME else SUCCESSOR))
        stage.until_done()
        wrong = stage.close_all()
        # What the victim left was checked before, where no process has taken it over.
        for role in (VICTIM, HEIR, SUCCESSOR) if successor == SAME else (HEIR, SUCCESSOR):
            wrong += self._folders(stage, role)
            wrong += [
                f"left in the trash: {path}" for path in stage.state_of(role).glob("*/.trash/*") if role != VICTIM
            ]
        names = (stage.name, app.changelog_topic(stage.name), app.answers_topic(stage.name))
        exact = self.guarantee == EXACT
        until(lambda: settled(self.cluster.admin, names) or None, "no transaction is open")
        lines = read_topics(self.cluster.servers, names, committed=exact)
        left = Left(*(lines[name] for name in names), stage.floor or committed, stage.seeded, exact)
        # A record between two subtopologies may be answered again although its input is committed.
        answered = replace(left, committed={}) if scenario.purges else left
        return [*wrong, *wrong_state(left), *wrong_answers(answered)]

    def _folders(self, stage: Stage, role: str, *, in_bulk: bool = False) -> list[str]:
        folders = read_folders(stage.state_of(role))
        topic = app.changelog_topic(stage.name)
        if not folders:
            return []
        lines = read_topics(self.cluster.servers, [topic], committed=self.guarantee == EXACT)
        return wrong_folders(folders, lines[topic], end_offsets(self.cluster.admin, topic), in_bulk=in_bulk)


def chosen(recordings: Sequence[tuple[Scenario, Recording]], *, everything: bool) -> list[tuple[Scenario, list[Point]]]:
    """Choose the points: every class of occurrence in each phase, on both sides; or every call site once.

    Once in the scenarios with a single process, and once in those in which another takes over.
    """
    if everything:
        return [(scenario, all_points(seen, after_only(seen))) for scenario, seen in recordings]
    known: dict[bool, set[str]] = {False: set(), True: set()}
    plan: list[tuple[Scenario, list[Point]]] = []
    for scenario, seen in recordings:
        group = known[scenario.rebalance is not None]
        fresh = {at: n for at, n in busiest_phases(seen).items() if at[1] not in group}
        group.update(site for _, site in fresh)
        plan.append((scenario, point_per_site(fresh, after_only(fresh))))
    return plan
