"""The problems that are timed, and how they are timed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from kstreams_assign.assign import compute_lag, high_availability
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TaskId
from kstreams_assign.peer.bench_assign import bench_assign
from kstreams_assign.peer.bench_codec import bench_codec, clients_of, offset_sums, subscription_of
from kstreams_assign.peer.bench_problem import CASES, END_OFFSET_SUM, Held, Problem, Size, converged, read, written

OURS = [sys.executable, "-m", "kstreams_assign", "peer"]

KAFKAS_ANSWERS = {
    # case, state -> SHA-256 of what Kafka 4.3.1's class decided
    ("40x3x2x1", "fresh"): "09a809b4983353281216e1045172f479ca8469e360145b5db3243ace115c4765",
    ("40x3x2x1", "join"): "1d29790b0e98453486acbe138e6ae5270638f9b142d8a23bdf67223b3ee51338",
}


@pytest.mark.parametrize("case", CASES)
def test_every_case_is_a_size(case):
    assert "x".join(map(str, Size.parse(case))) == case


@pytest.mark.parametrize("case", ["", "1x2x3", "1x2x3x4x5", "0x1x1x1", "1x0x1x1", "1x1x0x1", "1x1x1x-1", "axbxcxd"])
def test_an_invalid_size_is_refused(case):
    with pytest.raises(ConfigError, match="TASKSxCLIENTSxTHREADSxSTANDBYS"):
        Size.parse(case)


def test_a_fresh_start_holds_nothing_and_a_join_adds_an_empty_client():
    size = Size(8, 2, 3, 1)
    fresh = Problem(size).cluster()
    assert [(len(client.prev_active | client.prev_standby), client.capacity) for client in fresh.clients] == [
        (0, 3),
        (0, 3),
    ]
    assert {client.lags[TaskId(0, 0)] for client in fresh.clients} == {END_OFFSET_SUM}
    joined = Problem(size, converged(size, high_availability)).cluster()
    assert [(len(client.prev_active), len(client.prev_standby)) for client in joined.clients] == [
        (4, 4),
        (4, 4),
        (0, 0),
    ]
    assert joined.clients[2].process_id.int == 2


def test_each_call_gets_its_own_cluster():
    problem = Problem(Size(4, 2, 1, 0))
    assert problem.cluster() is not problem.cluster()
    assert problem.cluster() == problem.cluster()


def test_held_tasks_pass_to_the_next_process():
    held = [Held((TaskId(0, 1), TaskId(0, 7)), ()), Held((), (TaskId(0, 1),)), Held()]
    assert written(held) == "1 7|\n|1\n|\n"
    assert read(written(held)) == held
    assert read("") == []


def test_a_row_has_the_case_the_times_and_kafkas_answer():
    rows = list(bench_assign(["40x3x2x1"], ["fresh", "join"], "high_availability", 0.0, (2, 2)))
    assert [(row["case"], row["state"]) for row in rows] == list(KAFKAS_ANSWERS)
    for row in rows:
        assert row["assignment_sha256"] == KAFKAS_ANSWERS[row["case"], row["state"]]
        assert row["warm_calls"] == 2
        assert 0 < row["import_ms"] < row["first_call_ms"]
        assert 0 < row["warm_min_ms"] <= row["warm_median_ms"]
    assert [row["clients_in_call"] for row in rows] == [3, 4]
    assert [row["probing_rebalance"] for row in rows] == [False, True]


@pytest.mark.parametrize(
    "wrong", [("1x1x1x1", "old", "high_availability"), ("1x1x1x1", "join", "x"), ("1", "join", "x")]
)
def test_invalid_cases_are_refused_before_any_runs(wrong):
    case, state, assignor = wrong
    with pytest.raises(ConfigError):
        next(bench_assign([case], [state], assignor, 0.0, (1, 1)))


def test_the_import_of_the_assignors_is_measured():
    """The module that times it must not have imported them, nor their imports."""
    script = "import sys, kstreams_assign.peer.bench_call; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "kstreams_assign.peer.bench_call" in loaded
    assert not {"kstreams_assign.assign", "kstreams_assign.model", "dataclasses", "uuid", "json", "numpy"} & loaded


def test_the_commands_print_a_line_of_json_each():
    call = [*OURS, "bench-assign", "--case", "4x2x1x0", "--state", "fresh", "--seconds", "0", "--min-iters", "1"]
    for words in (call, [*OURS, "info"]):
        (line,) = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
        assert isinstance(json.loads(line), dict)


def test_codecs_are_timed_on_single_messages_and_on_a_leaders_work():
    rows = list(bench_codec(0.0, members=2))
    assert [row["what"] for row in rows][-3:] == [
        "leader reads 2 subscriptions",
        "leader makes 2 clients of subscriptions",
        "leader writes 2 assignments",
    ]
    assert len(rows) == 10
    assert all(row["median_ops_per_s"] > 0 and row["bytes"] > 10_000 for row in rows)


def test_the_timed_clients_have_all_reported_sums():
    sums_by_member = [offset_sums(n) for n in range(3)]
    cluster = clients_of([subscription_of(n, sums) for n, sums in enumerate(sums_by_member)])()
    assert [client.process_id.int for client in cluster.clients] == [0, 1, 2]
    for client, sums in zip(cluster.clients, sums_by_member, strict=True):
        assert client.prev_active | client.prev_standby == sums.keys() <= cluster.stateful
        assert {task: client.lags[task] for task in sums} == {
            t: compute_lag(2_000_000, total) for t, total in sums.items()
        }
