"""Leader x joiner x leaver and how x standbys: each case is a group of its own, several at a time on one broker.

    python -m tests.mixed.matrix                       # all cases, a line each, then JSON; exit status 1 on failure
    python -m tests.mixed.matrix --only java-leads     # the cases whose name contains this text
    python -m tests.mixed.matrix --at-a-time 2

A case: an instance leads and has all tasks and some state; another joins, warms up and gets its half; one of them
leaves, closed or killed; the other has everything, and every input is counted. Inputs arrive all the time. A Python
instance asks for the rebalances that hand warm tasks over, which otherwise come a minute apart; ``WAITED`` are the
cases that wait.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Condition
from typing import Literal, get_args

from kstreams_assign.local import LocalBroker
from tests.java.app_process import AppProcess
from tests.mixed.python_app import PythonApp
from tests.mixed.stage import Counts, Language, Stage, balanced, until

Leaver = Literal["leader", "joiner"]
Way = Literal["close", "kill"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
LEAVERS: tuple[Leaver, ...] = get_args(Leaver)
WAYS: tuple[Way, ...] = get_args(Way)

PARTITIONS = 4
AT_ONCE, PER_S = 4_000, 100
ENOUGH = 500
"""With this many changelog records per partition, no replica counts as caught up by itself."""
SETTINGS: Mapping[str, object] = {
    "acceptable.recovery.lag": 100,
    "max.warmup.replicas": PARTITIONS,
    "probing.rebalance.interval.ms": 60_000,
}
OURS_TOO: Mapping[str, object] = {"early.probing.floor.ms": 1_000}
OURS_WAITS: Mapping[str, object] = {"early.probing": "false"}
LIMIT_S, PROBED_LIMIT_S = 180.0, 300.0
SESSION_MS: Mapping[Way, int] = {"close": 30_000, "kill": 10_000}
"""No session may expire on a busy machine, as another would lead then; the end of a killed session is awaited."""
ASK_EACH_S = 2.0
JVMS = 4
AT_A_TIME = 6


@dataclass(frozen=True, slots=True)
class Case:
    """One group's course."""

    leads: Language
    joins: Language
    leaves: Leaver
    by: Way
    standbys: int

    def __str__(self) -> str:
        return f"{self.leads}-leads-{self.joins}-joins-{self.leaves}-leaves-by-{self.by}-standbys-{self.standbys}"

    @property
    def jvms(self) -> int:
        return (self.leads, self.joins).count("java")

    @property
    def probed(self) -> bool:
        """Whether it waits for the probing interval."""
        return self in WAITED

    @property
    def asks(self) -> bool:
        """Whether a Python instance has to be asked to rejoin: it knows its own replicas, but not Java's."""
        return self.leads == "python" and self.joins == "java" and not self.probed


WAITED = (
    Case("java", "java", "leader", "close", 1),
    Case("java", "python", "joiner", "kill", 0),
    Case("python", "java", "leader", "kill", 1),
)
CASES = [
    Case(leads, joins, leaves, by, standbys)
    for leaves in LEAVERS
    for by in WAYS
    for standbys in (0, 1)
    for leads in LANGUAGES
    for joins in LANGUAGES
]
"""Languages vary fastest, so that about the same number of Java processes is needed at any time."""
IN_TURN = [*WAITED, *(case for case in CASES if case not in WAITED)]
"""The cases in their order of start: those that wait for the interval first."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a case. Seconds: from the join to balance, from the leave to balance, in total."""

    counts: Counts
    led_by_leader: bool
    generations: int
    join_s: float
    leave_s: float
    seconds: float

    @property
    def good(self) -> bool:
        return self.led_by_leader and self.counts.lost == 0 and self.counts.went_back == 0


def play(case: Case, servers: str, folder: Path) -> Outcome:
    """Run a case, from its topic to its last count. Raises ``AssertionError`` if it does not reach balance."""
    began = time.monotonic()
    with closing(Stage(servers, str(case), folder, PARTITIONS, case.standbys)) as stage:
        leader = stage.start(case.leads, _settings(case, case.leads))
        until(lambda: balanced([leader], PARTITIONS, 0), LIMIT_S, "the leader has all tasks", [leader])
        stage.send(at_once=AT_ONCE, per_s=PER_S)
        until(lambda: stage.applied() > ENOUGH, LIMIT_S, "there is state", [leader])
        joiner = stage.start(case.joins, _settings(case, case.joins))
        both = [leader, joiner]
        join_s = until(
            _asking(lambda: balanced(both, PARTITIONS, case.standbys), both if case.asks else ()),
            PROBED_LIMIT_S if case.probed else LIMIT_S,
            "both have their half",
            both,
        )
        led = leader.signs(stage.leader())
        enough = stage.applied() + 2 * PER_S // PARTITIONS
        until(lambda: stage.applied() > enough, LIMIT_S, "both work", both)
        leaves, stays = (leader, joiner) if case.leaves == "leader" else (joiner, leader)
        leave = leaves.close if case.by == "close" else leaves.kill
        leave()
        leave_s = until(lambda: balanced([stays], PARTITIONS, 0), LIMIT_S, "one has everything", [stays])
        counts, generation = stage.counted(), stage.metadata().generation
    return Outcome(counts, led, generation, join_s, leave_s, round(time.monotonic() - began, 1))


def _settings(case: Case, language: Language) -> Mapping[str, object]:
    """Return the settings of an instance.

    Two Java instances have no member that asks, so any replica is accepted unless they wait for the interval.
    """
    settings = {**SETTINGS, "session.timeout.ms": SESSION_MS[case.by]}
    if language == "python":
        return {**settings, **(OURS_WAITS if case.probed else OURS_TOO)}
    return settings if case.jvms < 2 or case.probed else {**settings, "acceptable.recovery.lag": 1_000_000}


def _asking(so: Callable[[], bool], apps: Sequence[AppProcess]) -> Callable[[], bool]:
    """Ask a Python instance for a rebalance at intervals until the condition holds."""
    ours = next((app for app in apps if isinstance(app, PythonApp)), None)
    due = time.monotonic() + ASK_EACH_S

    def is_so() -> bool:
        nonlocal due
        if so():
            return True
        if ours is not None and time.monotonic() > due:
            ours.rejoin()
            due = time.monotonic() + ASK_EACH_S
        return False

    return is_so


class Seats:
    """A limited number of Java processes; a case that needs two gets both at once, in the order of requests."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._queue: list[object] = []
        self._news = Condition()

    @contextmanager
    def taken(self, count: int) -> Iterator[None]:
        ticket = object()
        with self._news:
            self._queue.append(ticket)
            self._news.wait_for(lambda: self._queue[0] is ticket and self._free >= count)
            self._queue.remove(ticket)
            self._free -= count
            self._news.notify_all()
        try:
            yield
        finally:
            with self._news:
                self._free += count
                self._news.notify_all()


class Matrix:
    """Running cases; each outcome can be awaited. ``close`` lets started cases end, and starts no other."""

    def __init__(self, servers: str, folder: Path, cases: Sequence[Case], at_a_time: int = AT_A_TIME) -> None:
        seats = Seats(JVMS)

        def run(case: Case) -> Outcome:
            with seats.taken(case.jvms):
                return play(case, servers, folder / str(case))

        self._pool = ThreadPoolExecutor(at_a_time, thread_name_prefix="case")
        self._outcomes: dict[Case, Future[Outcome]] = {case: self._pool.submit(run, case) for case in cases}

    def outcome(self, case: Case) -> Outcome:
        """Return the outcome, or raise what the case raised."""
        return self._outcomes[case].result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mixed.matrix", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--at-a-time", type=int, default=AT_A_TIME)
    options = parser.parse_args(arguments)
    cases = [case for case in IN_TURN if options.only in str(case)]
    began, failed = time.monotonic(), 0
    with (
        LocalBroker() as broker,
        TemporaryDirectory() as folder,
        closing(Matrix(broker.bootstrap_servers, Path(folder), cases, options.at_a_time)) as matrix,
    ):
        for case in cases:
            try:
                outcome = matrix.outcome(case)
            except AssertionError as cause:
                failed += 1
                print(f"{case}: {cause}", flush=True)
            else:
                failed += not outcome.good
                print(f"{case}: {json.dumps(asdict(outcome))}", flush=True)
    print(json.dumps({"cases": len(cases), "failed": failed, "seconds": round(time.monotonic() - began, 1)}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
