"""Leadership passes from Python to Java and back, five times, and no task moves: ``python -m tests.mixed.alternation``.

Three instances own a task each and two own none, because ``high_availability`` assigns tasks in the order of the
process ids. Those two lead in turn: the leader leaves the group, and comes back as a follower.

The coordinator chooses the leader's successor: the first member in its hash table (Kafka's ``ClassicGroup.remove``).
So the intended next leader leaves and comes back, with another member id each time, until it is the first. None of
these rebalances may move a task either.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import count, cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from kstreams_assign.assign.java_order import text_hash
from kstreams_assign.local import LocalBroker
from kstreams_assign.state.identity import derived_id
from tests.java.app_process import AppProcess
from tests.java.streams_app import StreamsApp
from tests.mixed.stage import Counts, Stage, given, until

PASSINGS = 5
OWNERS = {"0_0": "python-1", "0_1": "python-2", "0_2": "java-1"}
LEADERS = ("python-3", "java-2")
SETTINGS: Mapping[str, object] = {"acceptable.recovery.lag": 1_000_000, "session.timeout.ms": 30_000}
"""No process is killed, and none may lose its session on a busy machine: another would lead then."""
LOWEST, HIGHEST = "800", "7ff"
"""First digits of process ids that precede, and follow, nearly all others in Java's order (the first bit is a sign)."""
BUCKETS = 16
"""The buckets of a Java ``HashMap`` with at most twelve keys."""
LIMIT_S = 180.0


@dataclass(frozen=True, slots=True)
class Scene:
    """One generation: number, leader, and each task's owner."""

    generation: int
    leader: str
    owners: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Story:
    """``moves``: reported active tasks, from the first scene on, that differ from that scene."""

    scenes: tuple[Scene, ...]
    moves: tuple[str, ...]
    counts: Counts

    def transcript(self, *, numbered: bool) -> str:
        """Replace ids by names. The numbers of generations differ between runs: the number of rejoins is random."""
        rows = [("generation", "leader", *OWNERS)]
        for at, scene in enumerate(self.scenes):
            number = str(scene.generation) if numbered else "first" if at == 0 else "later"
            rows.append((number, scene.leader, *(scene.owners[task] for task in OWNERS)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        return "".join(f"{line}\n" for line in lines)


class Cast:
    """The instances by name: three owners and two leaders."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._apps: dict[str, AppProcess] = {}
        self._said: list[tuple[str, AppProcess, int]] = []

    def gather(self) -> None:
        """Let all instances join, and the tasks reach their final owners."""
        self.come("python-3")
        first = self._apps["python-3"]
        until(lambda: first.active == [*OWNERS], LIMIT_S, "the first has all tasks", [first])
        for name in ("python-1", "python-2"):
            self.come(name)
        both = [self._stage.start("java", SETTINGS) for _ in range(2)]
        all_apps = [*self._apps.values(), *both]

        def settled() -> bool:
            """Return whether the final owner was *assigned* the task; another member has it until a lower id comes."""
            metadata = self._stage.metadata()
            assigned = {name: tasks for name, tasks in given(metadata).items() if any(app.signs(name) for app in both)}
            complete = len(metadata.members) == len(all_apps) and all(app.running for app in all_apps)
            has = all(tasks == next(app.active for app in both if app.signs(name)) for name, tasks in assigned.items())
            return complete and has and sorted(assigned.values()) == [[], ["0_2"]]

        until(settled, LIMIT_S, "one of the Java instances has a task", both)
        both.sort(key=lambda app: not app.active)
        self._apps |= dict(zip(("java-1", "java-2"), both, strict=True))
        self.at_rest()

    def watch(self) -> None:
        """From now on no task may move."""
        self._said = [(name, app, len(app.events)) for name, app in self._apps.items()]

    def moves(self) -> tuple[str, ...]:
        """Return the reports since then that differ."""
        return tuple(
            f"{name} had {event['active']}"
            for name, app, begin in self._said
            for event in app.events[begin:]
            if event["event"] == "tasks" and event["active"] != _owned(name)
        )

    def come(self, name: str) -> None:
        """Join the group."""
        if isinstance(self._apps.get(name), StreamsApp):
            self._apps[name].tell("add-thread")
            return
        begin = HIGHEST if name in LEADERS else LOWEST
        names = (f"{name}-{number}" for number in count())
        process = next(text for text in names if derived_id(self._stage.name, text).hex.startswith(begin))
        self._apps[name] = self._stage.start("python", {**SETTINGS, "process.name": process}, name)
        if self._said:
            self._said.append((name, self._apps[name], 0))

    def go(self, name: str) -> None:
        """Leave the group. A Java instance removes its only thread, which is the member, and keeps its process id."""
        app = self._apps[name]
        if isinstance(app, StreamsApp):
            app.tell("remove-thread")
        else:
            app.close()

    def at_rest(self, absent: str | None = None) -> Scene:
        """Wait until all other instances are in the group, each with its own tasks."""
        present = {name: app for name, app in self._apps.items() if name != absent}
        scenes: list[Scene] = []

        def rest() -> bool:
            """Compare with a single record of the group: a later one may be of another generation."""
            active = {name: app.active for name, app in present.items()}
            right = all(app.running and active[name] == _owned(name) for name, app in present.items())
            metadata = self._stage.metadata()
            names = {
                member.member_id: name
                for member in metadata.members
                for name in present
                if present[name].signs(member.client_id)
            }
            if right and len(metadata.members) == len(names) == len(present):
                scenes.append(Scene(metadata.generation, names[metadata.leader], _owners(active)))
            return bool(scenes)

        until(rest, LIMIT_S, f"at rest without {absent}", list(present.values()))
        return scenes[-1]

    def renew(self, name: str) -> None:
        """Leave and come back as another member."""
        self.go(name)
        others = [app for other, app in self._apps.items() if other != name]
        until(lambda: len(self._stage.metadata().members) == len(others), LIMIT_S, f"{name} has left", others)
        self.come(name)
        self.at_rest()

    def places(self) -> dict[str, int]:
        """Return the bucket of the coordinator's table for each member that does not lead."""
        metadata = self._stage.metadata()
        followers = [member for member in metadata.members if member.member_id != metadata.leader]
        return {self._name(member.client_id): bucket(member.member_id) for member in followers}

    def first_in_turn(self) -> str | None:
        """Return the next leader after the present one; None if two members share the first bucket."""
        places = self.places()
        first = [name for name, place in places.items() if place == min(places.values())]
        return first[0] if len(first) == 1 else None

    def _name(self, client_id: str) -> str:
        return next(name for name, app in self._apps.items() if app.signs(client_id))


def _owners(active: Mapping[str, list[str]]) -> dict[str, str]:
    return {task: name for name, tasks in active.items() for task in tasks}


def _owned(name: str) -> list[str]:
    return [task for task, owner in OWNERS.items() if owner == name]


def bucket(member_id: str) -> int:
    """Return the bucket in Java's ``HashMap``: the hash's halves folded together, then its last bits."""
    hashed = text_hash(member_id)
    return (hashed ^ hashed >> 16) % BUCKETS


def play(servers: str, folder: Path, name: str) -> Story:
    """Pass the leadership five times under load."""
    with closing(Stage(servers, name, folder, len(OWNERS), 0)) as stage:
        stage.send(at_once=300, per_s=100)
        cast = Cast(stage)
        cast.gather()
        for owner in OWNERS.values():  # behind the intended leaders
            while cast.places()[owner] < BUCKETS // 2:
                cast.renew(owner)
        cast.watch()
        scenes = [cast.at_rest()]
        for leads, follows in islice(zip(cycle(LEADERS), cycle(LEADERS[::-1]), strict=False), PASSINGS):
            while cast.first_in_turn() != follows:
                cast.renew(follows)
            cast.go(leads)
            scenes.append(cast.at_rest(leads))
            cast.come(leads)
            cast.at_rest()
        return Story(tuple(scenes), cast.moves(), stage.counted())


def main() -> int:
    with LocalBroker() as broker, TemporaryDirectory() as folder:
        story = play(broker.bootstrap_servers, Path(folder), "alternation")
    print(story.transcript(numbered=True))
    print(f"tasks that moved: {len(story.moves)}; {story.counts}")
    return 1 if story.moves or story.counts.lost else 0


if __name__ == "__main__":
    sys.exit(main())
