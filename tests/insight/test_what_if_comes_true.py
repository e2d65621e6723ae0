"""What ``what-if`` predicts for a live group, and what the same broker and group then really do."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kstreams_assign import Record, Store, Task, TopicPartition
from kstreams_assign.adapters.confluent import ClusterAdmin, CommittedOffsets, RecordProducer
from kstreams_assign.events import (
    AdoptedEvent,
    AssignedEvent,
    DecisionEvent,
    EarlyProbeEvent,
    JoiningEvent,
    LookupFailedEvent,
    LostEvent,
    TaskFailedEvent,
)
from kstreams_assign.insight.fetch import take_snapshot
from kstreams_assign.insight.inspect import Asked
from kstreams_assign.insight.what_if import Change, what_if
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId
from tests.java.streams_app import streams_app
from tests.worker.app import App, E, Running

pytestmark = pytest.mark.timeout(500)  # several waits, each with a limit of its own

PARTITIONS = 12
WORDS = [b"word-%d" % number for number in range(3_000)]
SESSION_MS = 30_000
"""Long enough for a busy machine: a lost session adds a rebalance. A worker that stops leaves the group."""
SETTINGS: Mapping[str, Any] = {
    "acceptable_recovery_lag": 0,
    "early_probing_floor_ms": 4_000,
    "session_timeout_ms": SESSION_MS,
}
"""No replica is caught up from the start, and the leader probes soon."""
REBALANCING = (
    JoiningEvent,
    DecisionEvent,
    AssignedEvent,
    AdoptedEvent,
    EarlyProbeEvent,
    LostEvent,
    LookupFailedEvent,
    TaskFailedEvent,
)


class WideApp(App):
    """The workers' application on twelve partitions."""

    topology: Path | None = None
    """A file that describes what the group does not show."""

    def __init__(self, broker: str, name: str, folder: Path) -> None:
        self.broker, self.name, self.folder = broker, name, folder
        self.workers: list[Running] = []
        self.stopped: list[Running] = []
        self.admin = ClusterAdmin(broker)
        self.admin.create_topics({name: PARTITIONS, f"{name}-counts": PARTITIONS}, 60)

    def count_words(self) -> None:
        """Every word once, so that each leaves one record in the changelog, and no more follow."""
        producer = RecordProducer(self.broker, delivery_timeout_ms=60_000)
        for word in WORDS:
            producer.produce(self.name, None, word, b"x")
        producer.flush(60)
        until(lambda: sum(self.ends().values()) == len(WORDS))

    def ends(self) -> dict[TaskId, int]:
        changelogs = {TopicPartition(f"{self.name}-totals-changelog", n): TaskId(0, n) for n in range(PARTITIONS)}
        return {changelogs[partition]: end for partition, end in self.admin.end_offsets(changelogs, 60).items()}

    def copies_are_there(self) -> bool:
        """Whether each task runs or has read all: a copy that lags at all counts as cold here."""
        ends = self.ends()
        positions = [
            at for process in self.workers for at in process.worker._local.sums.report(owned_only=True).items()
        ]
        return all(position in {RUNNING_OFFSET_SUM, ends[task]} for task, position in positions)

    def take_away(self, worker: Running) -> None:
        self.workers.remove(worker)
        self.stopped.append(worker)
        worker.stop()

    def generation(self) -> int:
        return generation_of(self.broker, self.name)

    def at_rest(self, workers: int) -> bool:
        """Everybody has the same number of tasks, and the last decision left nothing to do."""
        last = self.decisions()[-1]
        active = [assigned[-1].active for process in self.workers if (assigned := process.reported(AssignedEvent))]
        spread = sorted(map(len, active)) == [PARTITIONS // workers] * workers
        return spread and not last.withheld and last.next_probe_ms is None

    def decisions(self) -> list[DecisionEvent]:
        return self.events(DecisionEvent)

    def events(self, *kinds: type[E]) -> list[E]:
        """The events of these types of all workers, in order of time."""
        workers = (*self.workers, *self.stopped)
        events = [event for worker in workers for kind in kinds for event in worker.reported(kind)]
        return sorted(events, key=lambda event: event.time_ms)

    def history(self) -> str:
        """What an assertion about rebalances shows when it fails."""
        return "\n".join(map(str, self.events(*REBALANCING)))


class TableApp(WideApp):
    """Its state is a table of its input topic: the input is the changelog, up to the committed offsets."""

    def __init__(self, broker: str, name: str, folder: Path) -> None:
        super().__init__(broker, name, folder)
        self.topology = folder / "topology.toml"
        stores = f'stores = [{{ name = "totals", source = "{name}" }}]'
        self.topology.write_text(f'[[topology.subtopology]]\nsources = ["{name}"]\n{stores}\n')

    def start(self, number: int, *_given: Any, **settings: Any) -> Running:
        return super().start(number, keep, stores=[Store("totals", source=self.name)], **settings)

    def ends(self) -> dict[TaskId, int]:
        inputs = {TopicPartition(self.name, n): TaskId(0, n) for n in range(PARTITIONS)}
        with closing(CommittedOffsets(self.broker, None, group_id=self.name)) as committed:
            offsets = committed.read(inputs, 60)
        return {task: offsets.get(partition, 0) for partition, task in inputs.items()}


def keep(task: Task, records: Sequence[Record]) -> None:
    task.store("totals").put_many([(record.key or b"", record.value) for record in records])


def generation_of(broker: str, group: str) -> int:
    generation = take_snapshot(broker, group).generation
    assert generation is not None
    return generation


def until(condition: Callable[[], bool], timeout_s: float = 120) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that in time"
        threading.Event().wait(0.1)


@pytest.fixture
def start(broker: str, tmp_path: Path) -> Iterator[Callable[..., WideApp]]:
    apps = []

    def started(name: str, workers: int, kind: type[WideApp] = WideApp, **settings: Any) -> WideApp:
        app = kind(broker, name, tmp_path)
        apps.append(app)
        for number in range(1, workers + 1):
            app.start(number, **SETTINGS, **settings)
        until(lambda: bool(app.decisions()) and app.at_rest(workers))
        for worker in app.workers:
            worker.until_running(PARTITIONS // workers)
        app.count_words()
        until(app.copies_are_there)
        return app

    yield started
    for app in apps:
        app.stop()


def predicted_outcomes(
    app: WideApp, capsys: pytest.CaptureFixture[str], settings: Mapping[str, Any], **change: Any
) -> list[Mapping[str, Any]]:
    """Return the command's alternatives; ``settings`` are those that the group does not show."""
    current = {"acceptable_recovery_lag": 0, **settings}
    asked = Asked(app.name, app.broker, topology=app.topology, settings=current)
    what_if(asked, Change(**change), as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["now"]["rebalances"] == 0
    alternatives: list[Mapping[str, Any]] = document["alternatives"]
    return alternatives


def came_true(app: WideApp, decisions_before: int, generation_before: int) -> dict[str, Any]:
    new = app.decisions()[decisions_before:]
    return {
        "assignor": new[-1].assignor,
        "owner_changes": sum(len(generation.changed) for generation in new),
        "lower_bound": new[0].owner_changes_lower_bound,
        "rounds": sum(generation.kind == "round" for generation in new),
        "rebalances": app.generation() - generation_before,
        "adopted": sum(len(generation.adopted) for generation in new),
    }


@pytest.mark.parametrize(
    ("kind", "assignor", "warmups", "expected"),
    [
        (WideApp, "least_movement", 2, {"owner_changes": 4, "lower_bound": 4, "rounds": 3, "rebalances": 5}),
        (WideApp, "high_availability", 4, {"owner_changes": 8, "lower_bound": 4, "rounds": 3, "rebalances": 5}),
        (TableApp, "least_movement", 2, {"owner_changes": 4, "lower_bound": 4, "rounds": 3, "rebalances": 5}),
    ],
)
def test_a_third_worker_brings_the_owner_changes_the_rounds_and_the_rebalances_that_were_predicted(
    start: Callable[..., WideApp],
    capsys: pytest.CaptureFixture[str],
    kind: type[WideApp],
    assignor: str,
    warmups: int,
    expected: Mapping[str, int],
) -> None:
    settings = {"assignor": assignor, "max_warmup_replicas": warmups}
    app = start(f"foretold-{kind.__name__}-{assignor.replace('_', '-')}", 2, kind, **settings)
    ours, other = predicted_outcomes(app, capsys, {"max_warmup_replicas": warmups}, add=1)
    before, generation = len(app.decisions()), app.generation()
    app.start(3, **SETTINGS, **settings)
    until(lambda: len(app.decisions()) > before and app.at_rest(3))
    really = came_true(app, before, generation)
    new = app.decisions()[before:]
    probes = app.events(EarlyProbeEvent)
    follow_ups = [later for earlier, later in pairwise(new) if earlier.withheld]
    assert really["rebalances"] == 1 + len(probes) + len(follow_ups), app.history()
    # In what-if all warm-ups end together, after the follow-up. On a busy machine the leader may hand over in
    # other portions.
    together = not any("still on their way" in probe.reason for probe in probes)
    if not together or any(decision.changed for decision in follow_ups):
        really = {key: value for key, value in really.items() if key not in {"rounds", "rebalances"}}
    assert {key: ours[key] for key in really} == really, app.history()
    assert {key: ours[key] for key in expected} == expected
    assert ours["owner_changes_range"] == [expected["owner_changes"]] * 2
    assert other["assignor"] != assignor


def test_a_leaving_worker_brings_what_was_predicted(
    start: Callable[..., WideApp], capsys: pytest.CaptureFixture[str]
) -> None:
    app = start("foretold-leave", 3, num_standby_replicas=1)
    leaver = app.workers[1]
    standing, _ = predicted_outcomes(app, capsys, {}, remove=[str(leaver.worker.process_id)])
    before, generation = len(app.decisions()), app.generation()
    app.take_away(leaver)
    until(lambda: len(app.decisions()) > before and app.at_rest(2))
    really = came_true(app, before, generation)
    assert {key: standing[key] for key in really} == really
    assert (really["adopted"], standing["cold"]) == (4, 0)


def test_a_second_java_process_brings_what_was_predicted(
    broker: str, java_peer: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With so little state that no task needs a warm-up: Java's shortest probing interval is a minute."""
    assert java_peer
    topics = {"foretold-java-a": 5, "foretold-java-b": 3}
    ClusterAdmin(broker).create_topics(topics, 60)
    settings = {"session.timeout.ms": SESSION_MS}
    with streams_app(broker, "foretold-java", tmp_path / "1", list(topics), settings=settings) as first:
        first.until_tasks(active=8)
        before = set(first.active)
        what_if(Asked("foretold-java", broker), Change(add_java=1), as_json=True)
        predicted = json.loads(capsys.readouterr().out)["alternatives"][0]
        generation = generation_of(broker, "foretold-java")
        with streams_app(broker, "foretold-java", tmp_path / "2", list(topics), settings=settings) as second:
            second.until_tasks(active=4)
            first.until_tasks(active=4)
            assert before & set(second.active) == set(second.active)
            really = {
                "owner_changes": len(second.active),
                "rebalances": generation_of(broker, "foretold-java") - generation,
            }
    assert {key: predicted[key] for key in really} == really == {"owner_changes": 4, "rebalances": 2}
    assert (predicted["assignor"], predicted["rounds"], predicted["warnings"]) == ("high_availability", 1, [])
