"""Predictions: equal to rounds without a protocol and to the protocol in real bytes, and checked by their figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign.assign import ASSIGNORS, AssignConfig, Client, Cluster, TaskLags, apply_plan, converge
from kstreams_assign.errors import ConfigError
from kstreams_assign.group.values import Decision
from kstreams_assign.model import RUNNING_OFFSET_SUM, SubtopologyShape, TaskId, TopologyShape, process_order
from kstreams_assign.observe.changes import Alternative, changed, new_ids
from kstreams_assign.observe.group_state import GroupState, ends_not_known, state_of_cluster
from kstreams_assign.observe.what_if import Outcome, by_place, predict
from tests.assign.jsonl import read_cluster, read_config, read_longs
from tests.assign.problems import assign_problem
from tests.observe.twin_group import TwinGroup
from tests.samples import examples, sample

END = 100_000
JAVAS, OURS = "high_availability", "least_movement"


def at_rest(tasks: int, processes: int, assignor: str = OURS, *, threads: int = 1, **config: int) -> GroupState:
    ends = {TaskId(0, partition): END for partition in range(tasks)}
    settings = AssignConfig(**config)
    fresh = tuple(Client(UUID(int=n + 1), threads, lags=TaskLags(ends, {})) for n in range(processes))
    cluster = Cluster(fresh, frozenset(ends))
    return state_of_cluster(apply_plan(cluster, ASSIGNORS[assignor](cluster, settings), ends), ends, settings, assignor)


def figures(outcome: Outcome) -> tuple[int, int, int, int]:
    return outcome.owner_changes, outcome.lower_bound, outcome.rounds, outcome.rebalances


WAITS = {"early_probing": False}
"""Without early probing every probe comes when its interval ends, as in the twin."""


# --- the protocol in real bytes, and rounds without a protocol ---------------------


def mid_life(seed: int, assignor: str) -> GroupState:
    """A group in the middle of its life, some of its processes Java's; no named topologies."""
    draw = Random(seed)
    while True:
        request = assign_problem(draw, 8, 30)
        cluster, config = read_cluster(request), read_config(request)
        if cluster.tasks and all(task.topology is None for task in cluster.tasks):
            ends = read_longs(request.get("task_end_offset_sums", {})) or dict.fromkeys(cluster.stateful, 1000)
            ours = {client.process_id: draw.random() < 0.9 for client in cluster.clients}
            return state_of_cluster(cluster, ends, config, assignor, ours=ours)


def change_of_rest(seed: int, assignor: str, standbys_max: int = 2) -> tuple[GroupState, Alternative]:
    draw = Random(seed)
    processes = draw.randint(1, 7)
    state = at_rest(
        draw.randint(1, 40),
        processes,
        assignor,
        threads=draw.choice([1, 1, 2]),
        num_standby_replicas=min(standbys_max, draw.choice([0, 0, 1, 2])),
        max_warmup_replicas=draw.choice([1, 2, 8]),
    )
    names = draw.sample(sorted(state.processes), processes - 1)
    alternative = Alternative(
        add=draw.choice([0, 1, 1, 2]),
        threads=draw.choice([1, 2]),
        remove=tuple(names[: draw.choice([0, 1])]),
        replace=tuple(names[1 : 1 + draw.choice([0, 1])]),
        settings={**WAITS, "warmup_queue": draw.random() < 0.2},
    )
    return state, alternative


def decision_values(decisions: Iterable[Decision]) -> list[object]:
    return [
        (
            decision.kind,
            decision.assignor,
            decision.changed,
            decision.adopted,
            decision.withheld,
            decision.placements,
            decision.next_probe_ms is None,
        )
        for decision in decisions
    ]


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 2**32), assignor=st.sampled_from([JAVAS, OURS]))
def test_a_group_in_the_middle_of_its_life_goes_on_as_in_real_bytes(seed: int, assignor: str) -> None:
    state = mid_life(seed, assignor)
    outcome = predict(state, Alternative(settings=WAITS))
    assert decision_values(generation.decision for generation in outcome.generations) == decision_values(
        TwinGroup(state).settle()
    )


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 2**32), assignor=st.sampled_from([JAVAS, OURS]))
def test_a_change_of_a_group_at_rest_goes_on_as_in_real_bytes(seed: int, assignor: str) -> None:
    state, alternative = change_of_rest(seed, assignor)
    outcome = predict(state, alternative)
    assert decision_values(generation.decision for generation in outcome.generations) == decision_values(
        TwinGroup(changed(state, alternative)).settle()
    )


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 2**32), assignor=st.sampled_from([JAVAS, OURS]))
def test_owner_changes_are_those_of_rounds_that_converge_and_never_below_the_bound(seed: int, assignor: str) -> None:
    """With up to one standby: with more, a follow-up may change Java's decision, which a round cannot show."""
    state, alternative = change_of_rest(seed, assignor, standbys_max=1)
    alternative = replace(alternative, settings=WAITS)
    outcome = predict(state, alternative)
    rounds = converge(as_cluster(changed(state, alternative)), state.config, ASSIGNORS[assignor], state.ends)
    planned = [generation.decision for generation in outcome.generations if generation.cause != "follow_up"]
    assert [
        sum(map(len, (decision.changed for decision in planned))),
        sum(map(len, (decision.adopted for decision in planned))),
    ] == [
        sum(len(decision.changed) for decision in rounds),
        sum(len(decision.adopted) for decision in rounds),
    ]
    assert outcome.converged
    assert outcome.lower_bound <= outcome.owner_changes or not outcome.balanced


def as_cluster(state: GroupState) -> Cluster:
    clients = []
    for name, process in state.processes.items():
        sums = {task: RUNNING_OFFSET_SUM if task in process.active else at for task, at in process.positions.items()}
        lags = TaskLags(state.ends, sums)
        clients.append(Client(name, len(process.consumers), process.active, process.copies, lags))
    return Cluster(tuple(clients), frozenset(state.ends))


# --- by the figures ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("assignor", "settings", "expected", "warmups"),
    sample(
        [
            # owner changes, their lower bound, rounds, rebalances
            (OURS, {}, (18, 18, 10, 19), 2),
            (OURS, {"max_warmup_replicas": 8}, (18, 18, 4, 7), 8),
            (OURS, {"warmup_queue": True}, (18, 18, 2, 3), 18),
            (JAVAS, {}, (180, 18, 91, 181), 2),
        ],
        3,
    ),
)
def test_two_hundred_tasks_grow_from_ten_to_eleven_processes(assignor, settings, expected, warmups):
    outcome = predict(at_rest(200, 10, assignor), Alternative(add=1, settings=settings))
    assert figures(outcome) == expected
    assert outcome.probing_rebalances == outcome.rounds - 1
    assert outcome.extra_replicas == warmups
    assert outcome.balanced
    assert outcome.converged


def test_a_group_at_rest_stays_as_it_is_without_a_change():
    outcome = predict(at_rest(12, 3, num_standby_replicas=1), Alternative())
    assert figures(outcome) == (0, 0, 0, 0)
    assert (outcome.seconds, outcome.tasks_without_standby, outcome.assignor) == (0, 0, OURS)


def test_a_group_that_probes_goes_on_where_it_is():
    ends = dict.fromkeys(map(TaskId, [0] * 4, range(4)), END)
    busy = Client(UUID(int=1), prev_active=frozenset(ends), lags=TaskLags(ends, dict.fromkeys(ends, -2)))
    warming = frozenset([TaskId(0, 0), TaskId(0, 1)])
    other = Client(UUID(int=2), prev_standby=warming, lags=TaskLags(ends, dict.fromkeys(warming, 0)))
    cluster = Cluster((busy, other), frozenset(ends))
    state = state_of_cluster(cluster, ends, AssignConfig(), OURS, rebalance_in_ms=30_000)
    outcome = predict(state, Alternative(settings={}))
    assert figures(outcome) == (2, 2, 1, 2)
    assert [generation.cause for generation in outcome.generations] == ["probe", "follow_up"]
    late = predict(replace(state, early_probing=False), Alternative(), offsets_per_s=20_000)
    assert (late.seconds, figures(late)) == (30.0, (2, 2, 1, 2))
    soon = predict(state, Alternative(), offsets_per_s=20_000)
    assert (soon.seconds, figures(soon)) == (10.0, (2, 2, 1, 2))


def test_a_java_member_means_javas_decision_and_more_owner_changes():
    state = at_rest(66, 10)
    ours, java = predict(state, Alternative(add=1)), predict(state, Alternative(add_java=1))
    assert (ours.assignor, ours.owner_changes, ours.warnings) == (OURS, 6, ())
    assert java.assignor == JAVAS
    assert java.owner_changes > 10 * ours.owner_changes // 2
    assert "assignor high_availability" in java.warnings[0]


def test_a_leaving_process_costs_a_restore_of_each_task_without_a_standby():
    gone = UUID(int=3)
    bare = predict(at_rest(12, 3), Alternative(remove=(gone,)), offsets_per_s=10_000)
    assert (bare.adopted, bare.cold, bare.owner_changes, bare.rebalances) == (4, 4, 0, 1)
    assert bare.seconds == 20.0, "two processes restore two tasks of 100,000 offsets each"
    safe = predict(at_rest(12, 3, num_standby_replicas=1), Alternative(remove=(gone,)))
    assert (safe.adopted, safe.cold) == (4, 0)
    assert safe.tasks_without_standby == 8, "four standbys were promoted, and four were lost with their process"


def test_a_replacement_takes_over_what_its_predecessor_had_and_no_other_task_moves():
    outcome = predict(at_rest(200, 10), Alternative(replace=(UUID(int=4),)))
    assert (outcome.adopted, outcome.owner_changes, outcome.rebalances) == (20, 0, 1)


def test_unknown_restore_rates_leave_the_time_open_unless_nothing_is_read():
    outcome = predict(at_rest(4, 1), Alternative(add=1))
    assert (outcome.seconds, outcome.seconds_at_least) == (None, 10.0)
    assert predict(at_rest(4, 1), Alternative(add=1, settings=WAITS)).seconds_at_least == 600.0
    assert predict(at_rest(4, 1), Alternative(settings={"max_warmup_replicas": 1})).seconds == 0


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({}, 200.0),  # two copies share the newcomer's rate: both are there after 200 s, and asked for early
        (WAITS, 600.0),
        ({"max_warmup_replicas": 1}, 200.0),  # one after the other
    ],
)
def test_time_follows_the_restore_rate_and_the_pace_of_probing(settings, seconds):
    outcome = predict(at_rest(4, 1), Alternative(add=1, settings=settings), offsets_per_s=1000)
    assert outcome.seconds == pytest.approx(seconds, abs=0.1)
    assert outcome.offsets_read == 2 * END


def test_a_warm_up_that_becomes_a_standby_ends_at_the_floor_and_not_at_the_interval():
    """Of two tasks with standbys the new process gets one of the standbys: no owner changes."""
    state = at_rest(2, 2, num_standby_replicas=1)
    prediction = predict(state, Alternative(add=1), offsets_per_s=100_000)
    assert (prediction.owner_changes, prediction.extra_replicas, prediction.seconds) == (0, 1, 10.0)
    assert predict(state, Alternative(add=1, settings=WAITS), offsets_per_s=100_000).seconds == 600.0


def test_ends_that_were_not_sampled_count_as_reached_by_every_replica_alone():
    config = AssignConfig()
    tasks = frozenset(TaskId(0, p) for p in range(4))
    ends = ends_not_known(tasks, config)
    cluster = Cluster((Client(UUID(int=1), prev_active=tasks, lags=TaskLags(ends, dict.fromkeys(tasks, -2))),), tasks)
    outcome = predict(state_of_cluster(cluster, ends, config, OURS), Alternative(add=1))
    assert figures(outcome) == (2, 2, 2, 3)


@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_new_processes_sort_at_the_requested_place(place):
    present = [UUID(int=number) for number in (5, 2**127 + 9, 2**128 - 9, 2**64 - 1)]
    come = new_ids(present, 3, place)
    order = sorted([*present, *come], key=process_order)
    first = {"first": 0, "middle": 2, "last": 4}[place]
    assert order[first : first + 3] == come


def test_javas_answer_is_given_for_each_place_of_new_processes():
    outcome_changes = [outcome.owner_changes for outcome in by_place(at_rest(37, 4, JAVAS), Alternative(add=1))]
    assert len(outcome_changes) == 3
    assert [outcome.owner_changes for outcome in by_place(at_rest(37, 4), Alternative(add=1))] == [7, 7, 7]
    assert len(by_place(at_rest(37, 4, JAVAS), Alternative(remove=(UUID(int=1),)))) == 1


@pytest.mark.parametrize(
    ("alternative", "says"),
    [
        ({"remove": (UUID(int=99),)}, "not in the group"),
        ({"remove": (UUID(int=1),), "replace": (UUID(int=1),)}, "named twice"),
        ({"remove": (UUID(int=1), UUID(int=2))}, "no process would be left"),
        ({"settings": {"max_warmups": 2}}, "max_warmups: must be one of"),
        ({"settings": {"max_warmup_replicas": 0}}, "max_warmup_replicas = 0"),
        ({"assignor": "best"}, "'best': must be one of"),
        ({"add": -1}, "0 or more processes"),
    ],
)
def test_a_change_that_cannot_be_made_is_refused(alternative, says):
    with pytest.raises(ConfigError, match=says):
        predict(at_rest(4, 2), Alternative(**alternative))


def test_tasks_that_no_topology_has_are_refused():
    for tasks, says in (([TaskId(0, 1)], "0_0 is missing"), ([TaskId(0, 0, "named")], "named topologies")):
        cluster = Cluster((Client(UUID(int=1)),), frozenset(), frozenset(tasks))
        with pytest.raises(ConfigError, match=says):
            state_of_cluster(cluster, {}, AssignConfig(), OURS)


def test_nothing_is_predicted_while_a_source_topic_is_missing():
    state = at_rest(4, 3)
    topology = TopologyShape((*state.topology.subtopologies, SubtopologyShape(("payments",))))
    with pytest.raises(ConfigError, match="nothing can be predicted: source topics do not exist: payments"):
        predict(replace(state, topology=topology), Alternative(add=1))


def test_a_change_in_words():
    gone = UUID(int=1)
    change = Alternative(add=2, add_java=1, threads=3, replace=(gone,), settings={"warmup_queue": True})
    assert change.text({gone: "w1"}) == "add 2 of 3 threads, add 1 Java of 3 threads, replace w1, warmup_queue = True"
    assert Alternative().text() == "nothing changes"


@pytest.mark.parametrize("seed", range(40))
def test_a_follow_up_assigns_the_withheld_tasks_and_decides_nothing_again(seed: int) -> None:
    foretold = predict(mid_life(seed, OURS), Alternative(settings={"early_probing": False}))
    followed = [played.decision.kind for played in foretold.generations if played.cause == "follow_up"]
    assert set(followed) <= {"follow_up"}
