"""What a situation on a real broker cost, from the events of its processes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from bench.situations.costs import Costs, costs
from tests.samples import examples

TASKS = ("0_0", "0_1", "0_2")


def status(at_ms, worker, **tasks):
    views = {task: {"role": role, "state": state, "lag": lag} for task, (role, state, lag) in tasks.items()}
    return {"event": "status", "time_ms": at_ms, "worker": worker, "tasks": views}


def spent(*events, from_ms=1_000, to_ms=11_000):
    return costs(events, from_ms, to_ms, len(TASKS))


RUNS, RESTORES = ("active", "running", 0), ("active", "restoring", 900)


def test_a_task_is_down_until_a_process_runs_it_and_again_once_that_has_ended():
    events = [
        status(2_000, "a", **{"0_0": RUNS, "0_1": RUNS}),
        status(4_000, "b", **{"0_2": RUNS}),
        {"event": "exited", "time_ms": 9_000, "worker": "a", "status": 0},
    ]
    assert spent(*events) == Costs(downtime_s=3 * 1 + 1 * 2 + 0 * 5 + 2 * 2, restored=0)


def test_a_task_that_two_processes_report_is_one_that_runs():
    events = [status(500, name, **dict.fromkeys(TASKS, RUNS)) for name in "ab"]
    assert spent(*events).downtime_s == 0


def test_what_was_restored_is_how_much_nearer_each_copy_came_to_the_end_of_its_changelog():
    events = [
        status(2_000, "a", **{"0_0": ("active", "restoring", None), "0_1": ("standby", "tailing", 50)}),
        status(3_000, "a", **{"0_0": ("active", "restoring", 900), "0_1": ("standby", "tailing", 60)}),
        status(3_500, "b", **{"0_0": ("warmup", "tailing", 7)}),
        status(4_000, "a", **{"0_0": ("active", "restoring", 300), "0_1": ("standby", "tailing", 0)}),
        status(5_000, "a", **{"0_0": RUNS}),
    ]
    assert spent(*events).restored == 600 + 60 + 300


def test_a_process_that_starts_again_on_its_disk_restores_only_what_it_reads_then():
    events = [
        status(2_000, "a", **{"0_0": ("standby", "tailing", 900)}),
        {"event": "exited", "time_ms": 3_000, "worker": "a", "status": 0},
        status(4_000, "a", **{"0_0": ("standby", "tailing", 100)}),
        status(5_000, "a", **{"0_0": ("standby", "tailing", 90)}),
    ]
    assert spent(*events).restored == 10


def test_what_happened_before_and_after_does_not_count():
    events = [
        status(0, "a", **{"0_0": ("active", "restoring", 900)}),
        status(500, "a", **{"0_0": ("active", "restoring", 800)}),
        status(20_000, "a", **{"0_0": RUNS}),
    ]
    assert spent(*events) == Costs(downtime_s=30, restored=0)


VIEWS = st.sampled_from([RUNS, RESTORES, ("standby", "tailing", 9), ("warmup", "tailing", 1)])
STATUSES = st.builds(
    lambda at, name, tasks: status(at * 100, name, **tasks),
    st.integers(0, 30),
    st.sampled_from("abc"),
    st.dictionaries(st.sampled_from(TASKS), VIEWS),
)
EXITS = st.builds(
    lambda at, name: {"event": "exited", "time_ms": at * 100, "worker": name},
    st.integers(0, 30),
    st.sampled_from("abc"),
)


@settings(max_examples=examples(200))
@given(st.lists(STATUSES | EXITS, max_size=12, unique_by=lambda event: event["time_ms"]))
def test_the_costs_are_those_of_looking_every_tenth_of_a_second(events):
    from_ms, to_ms = 500, 2_500
    down_ms, restored, last = 0, 0, {}
    for at_ms in range(0, to_ms + 100, 100):
        for event in events:
            if event["time_ms"] == at_ms:
                new, old = event.get("tasks", {}), last.get(event["worker"], {})
                both = [(old[task]["lag"], new[task]["lag"]) for task in old.keys() & new.keys()]
                restored += (at_ms > from_ms) * sum(before - lag for before, lag in both if lag < before)
                last[event["worker"]] = new
        views = [(task, view) for tasks in last.values() for task, view in tasks.items()]
        running = {task for task, view in views if (view["role"], view["state"]) == RUNS[:2]}
        down_ms += (from_ms <= at_ms < to_ms) * 100 * (len(TASKS) - len(running))
    assert spent(*events, from_ms=from_ms, to_ms=to_ms) == Costs(down_ms / 1_000, restored)
