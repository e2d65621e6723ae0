"""``inspect`` of live groups of ours on a real broker: it agrees with what the members themselves logged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kstreams_assign.events import AssignedEvent, Event, StatusEvent
from tests.insight.run import Cli
from tests.worker.app import PARTITIONS, App, Running

pytestmark = pytest.mark.timeout(400)  # several waits, each with a limit of its own

WORDS = [b"word-%d" % (n % 97) for n in range(2_000)]
WARMING = {"acceptable_recovery_lag": 0, "max_warmup_replicas": 4, "early_probing": False}
GIVEN = ("--set", "acceptable_recovery_lag=0", "--set", "max_warmup_replicas=4")


def last_assigned(running: Running) -> Mapping[str, Any]:
    return running.reported(AssignedEvent)[-1].as_dict()


def warm_up(app: App) -> tuple[Running, Running]:
    """A worker that runs everything, and one that has just been given its warm-ups."""
    app.send(WORDS)
    first = app.start(1, **WARMING)
    first.until_running(PARTITIONS)
    app.until_counted()
    second = app.start(2, **WARMING)
    second.until(lambda events: any(isinstance(e, AssignedEvent) and e.warmup and not e.follow_up for e in events))
    first.until(lambda events: _generation(events) >= _generation(second.events))
    return first, second


def _generation(events: Sequence[Event]) -> int:
    return max((e.generation for e in events if isinstance(e, AssignedEvent)), default=0)


def test_a_group_in_its_warm_up_is_seen_as_its_members_know_it_and_moves_as_predicted(app: App, run: Cli) -> None:
    first, second = warm_up(app)
    facts = run("inspect", app.name, "-b", app.broker, "--json", *GIVEN).facts
    by_process = {process["process_id"]: process for process in facts["processes"]}
    for running in (first, second):
        seen, known = by_process[str(running.worker.process_id)], last_assigned(running)
        assert {role: seen[role] for role in ("active", "standby", "warmup")} == {
            role: known[role] for role in ("active", "standby", "warmup")
        }
        assert facts["generation"] == known["generation"]
        assert facts["probing_due_ms"] == known["next_probe_ms"]
        assert seen["ours"]
    assert facts["leader"] in [m["member_id"] for m in by_process[str(first.worker.process_id)]["members"]]
    assert not facts["balanced"]
    assert not {"settings", "acceptable_recovery_lag", "assignor", "generation"} & facts["assumed"].keys()
    newcomer = by_process[str(second.worker.process_id)]
    totals = {task: newcomer["lags"][task] for task in newcomer["warmup"]}
    assert all(lag > 0 for lag in totals.values())
    assert any("warms up on" in why and f"{app.name}-totals-changelog-" in why for why in facts["why"])
    foretold = {move["task"] for move in facts["next_moves"]}
    assert foretold == {move["task"] for move in facts["next_moves"] if move["to"] == str(second.worker.process_id)}
    second.until(_caught_up)
    second.worker.rejoin("do not wait a minute for the probe")
    second.until_running(len(foretold))
    assert set(last_assigned(second)["active"]) == foretold


def _caught_up(events: Sequence[Event]) -> bool:
    tasks = [e for e in events if isinstance(e, StatusEvent)][-1:]
    return bool(tasks and tasks[0].tasks) and all(task.lag == 0 for task in tasks[0].tasks.values())


def test_a_saved_snapshot_is_described_as_the_group_was(app: App, run: Cli, tmp_path: Path) -> None:
    app.send(WORDS)
    app.start(1).until_running(PARTITIONS)
    saved = tmp_path / "group.json"
    live = run("inspect", app.name, "-b", app.broker, "--json", "--save", saved)
    assert run("inspect", saved, "--json").facts == live.facts
    table = run("inspect", saved).out
    assert f"{app.name} · Stable · generation" in table.replace("\n", " ")
    assert f"{len(live.facts['assumed'])} assumptions: --assumptions lists them" in table
    assert "acceptable_recovery_lag" not in table
    table = run("inspect", saved, "--assumptions").out
    assert "assumed, as the group does not report it" in table
    assert "acceptable_recovery_lag" in table


def test_a_topology_of_ours_can_be_given(app: App, run: Cli, tmp_path: Path) -> None:
    app.start(1).until_running(PARTITIONS)
    given = tmp_path / "topology.toml"
    given.write_text(f'[[topology.subtopology]]\nsources = ["{app.name}"]\nstores = ["totals"]\n')
    facts = run("inspect", app.name, "-b", app.broker, "--json", "--topology", given).facts
    assert "topology" not in facts["assumed"]
    assert facts["balanced"]


def test_watching_prints_each_change_on_a_line_and_ends_on_ctrl_c(app: App) -> None:
    app.start(1).until_running(PARTITIONS)
    words = [sys.executable, "-m", "kstreams_assign", "inspect", app.name, "-b", app.broker, "--watch", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        try:
            assert watching.stdout is not None
            assert watching.stderr is not None
            lines = map(json.loads, watching.stdout)
            before = next(lines)
            assert [len(process["active"]) for process in before["processes"]] == [PARTITIONS]
            app.start(2)
            # A rebalance is a change, too; its line shows the last complete generation.
            after = next(line for line in lines if len(line["processes"]) == 2 and line["generation"] is not None)
            assert after["generation"] > before["generation"]
            os.kill(watching.pid, signal.SIGINT)
            assert watching.wait(90) == 0, watching.stderr.read()
            assert watching.stderr.read() == ""
        finally:
            watching.kill()


def test_a_group_that_all_members_left_is_empty(app: App, run: Cli) -> None:
    app.start(1).until_running(PARTITIONS)
    app.workers.pop().stop()
    facts = run("inspect", app.name, "-b", app.broker, "--json").facts
    assert (facts["state"], facts["processes"], facts["balanced"]) == ("Empty", [], None)
    assert facts["why"] == ["the group has no members: no process runs its tasks"]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (
            ["no-such-file"],
            2,
            (
                "no-such-file: to look at a group, add its brokers (-b HOST:PORT); "
                f"for a saved snapshot, name the file: {Path.cwd()}/no-such-file does not exist"
            ),
        ),
        (["g", "--watch"], 2, "--watch needs --bootstrap-servers"),
        (["g", "-b", "127.0.0.1:1", "--watch", "--save", "g.json"], 2, "--save: keeps one snapshot; leave out --watch"),
        (["g", "--set", "x=1"], 2, "--set x=1: write KEY=VALUE"),
        (["g", "--client", "x"], 2, "--client: write KEY=VALUE"),
        (["g", "-b", "127.0.0.1:1", "--timeout", "0.5"], 3, "127.0.0.1:1"),
        (["g", "-b", "127.0.0.1:1", "--client", "sasl.magic=1"], 2, "'sasl.magic': librdkafka"),
    ],
)
def test_a_wrong_call_and_a_broker_out_of_reach_have_their_statuses(run: Cli, words, status, said) -> None:
    done = run("inspect", *words)
    assert done.status == status
    assert said in done.err
