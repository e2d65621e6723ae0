"""The sticky assignor: what stays, what moves, and the purposes of Kafka's tests of ``LegacyStickyTaskAssignor``."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, permutations, product
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.assign import (
    AssignConfig,
    Client,
    Cluster,
    apply_plan,
    is_instance_balanced,
    owner_changes,
    owner_changes_lower_bound,
    previous_owners,
)
from kstreams_assign.assign.check import check_placements, check_single_owner, check_single_replica, check_standbys
from kstreams_assign.assign.java.plan_table import PlanTable
from kstreams_assign.assign.java.sticky import Pairs, fill_up_standbys, sticky
from kstreams_assign.assign.shares import Seats
from kstreams_assign.model import TaskId
from tests.assign.jsonl import read_cluster, read_config
from tests.assign.problems import assign_problem

P = [UUID(int=number) for number in range(1, 7)]
T = [TaskId(0, partition) for partition in range(8)]


def process(number: int, active: list[TaskId], standby: list[TaskId] | None = None, threads: int = 1) -> Client:
    return Client(P[number], threads, frozenset(active), frozenset(standby or ()))


def stateful(*clients: Client, tasks: list[TaskId]) -> Cluster:
    return Cluster(clients, frozenset(tasks))


def decide(cluster: Cluster, standbys: int = 0):
    """Return what each process gets, in the order of ``P``: active tasks, standbys."""
    plan = sticky(cluster, AssignConfig(num_standby_replicas=standbys))
    assert not plan.probing
    placed = [plan.placements[client.process_id] for client in cluster.clients]
    assert not any(placement.warmup for placement in placed)
    return [set(placement.active) for placement in placed], [set(placement.standby) for placement in placed]


def sizes(active: list[set[TaskId]]) -> list[int]:
    return [len(tasks) for tasks in active]


def test_a_stateless_task_stays_when_a_third_process_joins():
    """Seed 002: t1 stays on m1."""
    cluster = Cluster((process(0, [T[0]]), process(1, []), process(2, [])), frozenset(), frozenset(T[:1]))
    for clients in (cluster.clients, cluster.clients[::-1]):
        assert sticky(Cluster(clients, frozenset(), cluster.stateless), AssignConfig()).owners == {T[0]: P[0]}


def test_new_tasks_and_processes_share_evenly_by_threads():
    assert sizes(decide(stateful(*(process(n, []) for n in range(3)), tasks=T[:3]))[0]) == [1, 1, 1]
    twelve = [TaskId(topology, partition) for topology in range(4) for partition in range(3)]
    assert sizes(decide(stateful(process(0, []), process(1, [], threads=2), tasks=twelve))[0]) == [4, 8]
    for threads, tasks, shares in [
        ((3, 1, 1), T[:3], [1, 1, 1]),
        ((1, 2), T[:4], [1, 3]),
        ((4, 2), T[:4], [3, 1]),
        ((1, 1, 10), twelve + [TaskId(9, partition) for partition in range(3)], [2, 1, 12]),
    ]:
        clients = (process(n, [], threads=count) for n, count in enumerate(threads))
        assert sizes(decide(stateful(*clients, tasks=tasks))[0]) == shares


def test_a_subtopology_is_dealt_over_all_processes():
    tasks = [TaskId(topology, partition) for topology in range(2) for partition in range(8)]
    active, _ = decide(stateful(*(process(n, [], threads=4) for n in range(4)), tasks=tasks))
    assert active == [{tasks[n], tasks[n + 4], tasks[n + 8], tasks[n + 12]} for n in range(4)]


def test_owners_keep_their_tasks_while_each_has_a_thread():
    """More processes than tasks: newcomers get nothing, and threads that idle attract nothing."""
    clients = (process(0, [T[0]]), process(1, [T[2]]), process(2, [T[1]]), process(3, []), process(4, []))
    assert decide(stateful(*clients, tasks=T[:3]))[0] == [{T[0]}, {T[2]}, {T[1]}, set(), set()]
    clients = (process(0, T[:3], threads=4), process(1, [], threads=4))
    assert decide(stateful(*clients, tasks=T[:3]))[0] == [set(T[:3]), set()]


def test_a_newcomer_takes_its_share_and_nothing_moves_between_the_others():
    active, _ = decide(stateful(process(0, T[:3]), process(1, T[3:6]), process(2, []), tasks=T[:6]))
    assert sizes(active) == [2, 2, 2]
    assert active[0] < set(T[:3])
    assert active[1] < set(T[3:6])


def test_new_tasks_go_where_no_tasks_are_and_move_no_old_ones():
    clients = (process(0, [T[2], T[1]]), process(1, [T[0], T[3]]), process(2, []))
    assert decide(stateful(*clients, tasks=T[:6]))[0] == [{T[1], T[2]}, {T[0], T[3]}, {T[4], T[5]}]


def test_an_orphan_goes_to_a_former_standby_the_least_loaded_first():
    clients = (process(0, [], [T[2]]), process(1, [], [T[1]]), process(2, [], [T[0]]))
    assert decide(stateful(*clients, tasks=T[:3]))[0] == [{T[2]}, {T[1]}, {T[0]}]
    clients = (process(0, [T[0]], [T[1]]), process(1, [T[2]], [T[1]], threads=2))
    assert decide(stateful(*clients, tasks=T[:3]))[0] == [{T[0]}, {T[2], T[1]}]
    clients = (process(0, [T[0]], [T[1]], threads=2), process(1, [], [T[1]], threads=2))
    assert decide(stateful(*clients, tasks=T[:2]))[0] == [{T[0]}, {T[1]}]


def test_a_restarted_process_gets_back_the_tasks_whose_state_it_has():
    """Of the tasks that have to go away, those that the returned process has state of go."""
    clients = (process(0, [T[0], T[1], T[2], T[6]]), process(1, [], [T[1], T[6]]))
    assert decide(stateful(*clients, tasks=[T[0], T[1], T[2], T[6]]))[0] == [{T[0], T[2]}, {T[1], T[6]}]


def test_what_a_process_gives_away_is_a_mix_of_subtopologies():
    tasks = [TaskId(topology, partition) for topology in range(2) for partition in range(2)]
    active, _ = decide(stateful(process(0, tasks), process(1, []), tasks=tasks))
    assert [{task.subtopology for task in tasks} for tasks in active] == [{0, 1}, {0, 1}]


def test_of_two_claims_the_first_counts_and_the_task_runs_once():
    assert decide(stateful(process(0, [T[0]]), process(1, [T[0]]), tasks=T[:1]))[0] == [{T[0]}, set()]


def test_a_group_without_tasks_or_without_processes_has_an_empty_plan():
    assert sticky(Cluster((), frozenset()), AssignConfig()).placements == {}
    assert decide(stateful(process(0, [T[0]]), tasks=[])) == ([set()], [set()])


def test_standbys_fill_every_process_but_the_owner():
    clients = tuple(process(n, [T[n]]) for n in range(3))
    assert decide(stateful(*clients, tasks=T[:3]), standbys=2)[1] == [{T[1], T[2]}, {T[0], T[2]}, {T[0], T[1]}]
    assert decide(stateful(process(0, []), tasks=T[:1]), standbys=1) == ([{T[0]}], [set()])


def test_actives_and_standbys_together_are_even():
    active, standby = decide(stateful(*(process(n, []) for n in range(6)), tasks=T[:3]), standbys=1)
    assert [len(actives) + len(standbys) for actives, standbys in zip(active, standby, strict=True)] == [1] * 6


def test_standbys_stay_where_they_were():
    """Every way to have one standby of each of four tasks on another process."""
    for holders in permutations(range(4)):
        if all(holder != owner for owner, holder in enumerate(holders)):
            standbys = [[T[task] for task in range(4) if holders[task] == n] for n in range(4)]
            clients = tuple(process(n, [T[n]], standbys[n]) for n in range(4))
            assert decide(stateful(*clients, tasks=T[:4]), standbys=1)[1] == [set(tasks) for tasks in standbys]


def test_a_former_owner_becomes_the_standby_for_its_state_is_complete():
    clients = (process(0, [T[2]], [T[1]]), process(1, T[:2]), process(2, []))
    active, standby = decide(stateful(*clients, tasks=T[:3]), standbys=1)
    assert active == [{T[2]}, {T[0]}, {T[1]}]
    assert T[1] in standby[1]


def test_of_two_former_standbys_the_less_loaded_stays():
    stateless = [TaskId(1, partition) for partition in range(3)]
    clients = (
        process(0, [T[0]]),
        process(1, stateless[:2], [T[0]], threads=4),
        process(2, stateless[2:], [T[0]], threads=3),
    )
    cluster = Cluster(clients, frozenset(T[:1]), frozenset(stateless))
    assert decide(cluster, standbys=1)[1] == [set(), set(), {T[0]}]


def test_a_newcomer_takes_standbys_too():
    clients = (process(0, T[:2], T[2:4]), process(1, T[2:4], T[:2]), process(2, []))
    active, standby = decide(stateful(*clients, tasks=T[:4]), standbys=1)
    assert sorted(len(actives) + len(standbys) for actives, standbys in zip(active, standby, strict=True)) == [2, 3, 3]


@pytest.mark.parametrize(
    "clients",
    [
        (process(0, []), process(1, []), process(2, []), process(3, [])),
        (process(0, [T[1], T[2]]), process(1, [T[3]]), process(2, [T[0]]), process(3, [])),
        (
            process(0, []),
            process(1, [T[1], T[3]]),
            process(2, [T[0], T[2]], [T[1]]),
            process(3, [], [T[0], T[2], T[3]]),
        ),
        (
            process(0, [T[1], T[2]], [T[3], T[0]]),
            process(1, [T[3], T[0]], [T[1], T[2]]),
            process(2, []),
            process(3, []),
        ),
    ],
)
def test_no_two_processes_hold_the_same_tasks(clients):
    """Pairs of tasks are avoided, so that the loss of a process is shared by many."""
    active, standby = decide(stateful(*clients, tasks=T[:4]), standbys=1)
    held = [actives | standbys for actives, standbys in zip(active, standby, strict=True)]
    assert all(first != second for first, second in combinations(held, 2))


def test_the_owner_changes_are_the_fewest_that_balance_allows():
    """All small clusters: every way to have owned up to five tasks, orphans among them, for several threads."""
    for threads in [(1, 1), (1, 2), (1, 1, 1), (2, 1, 1)]:
        processes = P[: len(threads)]
        capacities = dict(zip(processes, threads, strict=True))
        for size in range(sum(threads), 6):
            for before in product((None, *processes), repeat=size):
                owned = {p: [t for t, owner in zip(T, before, strict=False) if owner == p] for p in processes}
                clients = [process(n, owned[p], threads=threads[n]) for n, p in enumerate(processes)]
                plan = sticky(stateful(*clients, tasks=T[:size]), AssignConfig())
                had = {t: owner for t, owner in zip(T, before, strict=False) if owner}
                changed, _ = owner_changes(had, plan.owners, processes)
                assert is_instance_balanced(plan.owners, capacities), (threads, before)
                assert len(changed) == owner_changes_lower_bound(had, capacities, T[:size]), (threads, before)


@given(seed=st.integers(0, 2**32), clients=st.integers(1, 12), tasks=st.integers(0, 60))
def test_plans_are_complete_even_and_stable(seed, clients, tasks):
    request = assign_problem(Random(seed), clients, tasks)
    cluster, config = read_cluster(request), read_config(request)
    plan = sticky(cluster, config)
    assert check_placements(cluster, plan) + check_single_owner(cluster, plan) + check_single_replica(plan) == []
    assert check_standbys(cluster, config, plan) == []
    assert_no_move_of_a_standby_evens_out_the_load(cluster, plan)
    if len(cluster.tasks) >= sum(cluster.capacities.values()):
        assert is_instance_balanced(plan.owners, cluster.capacities)
        changed, _ = owner_changes(previous_owners(cluster), plan.owners, cluster.capacities)
        claims = Counter(task for client in cluster.clients for task in client.prev_active)
        if max(claims.values(), default=1) == 1:
            bound = owner_changes_lower_bound(previous_owners(cluster), cluster.capacities, cluster.tasks)
            assert len(changed) == bound
    next_plan = sticky(apply_plan(cluster, plan, dict.fromkeys(cluster.stateful, 100)), config)
    assert next_plan == plan


def assert_no_move_of_a_standby_evens_out_the_load(cluster, plan):
    placed = {client.process_id: plan.placements[client.process_id] for client in cluster.clients}
    for source, destination in permutations(cluster.clients, 2):
        theirs = placed[source.process_id], placed[destination.process_id]
        less = (len(theirs[0].copies) - 1) / source.capacity
        more = (len(theirs[1].copies) + 1) / destination.capacity
        assert less < more or theirs[0].standby <= theirs[1].copies


@given(seed=st.integers(0, 2**32), size=st.integers(2, 6), wanted=st.integers(1, 3))
def test_missing_standbys_are_filled_up_as_the_slow_twin_does(seed, size, wanted):
    """The twin looks at every process for every standby: a new pair before none, then by load."""
    random = Random(seed)
    cluster = stateful(*(process(n, [], threads=random.randint(1, 3)) for n in range(size)), tasks=T)
    tables = PlanTable(cluster), PlanTable(cluster)
    for number in range(len(T)):
        owner = random.randrange(size)
        for table in tables:
            table.give_active(number, owner)
    wanted = min(wanted, size - 1)
    real, slow = (Pairs(table, wanted) for table in tables)
    fill_up_standbys(real, wanted)
    for number in range(len(T)):
        for _ in range(wanted):
            free = [client for client in range(size) if client not in slow.table.holders[number]]
            slow.give_standby(
                number, min(free, key=lambda client: (not slow.has_new_pair(number, client), slow.load(client)))
            )
    assert real.masks == slow.masks


@given(seed=st.integers(0, 2**32), clients=st.integers(2, 8), standbys=st.integers(1, 3))
def test_new_pairs_are_those_of_a_table_of_pairs(seed, clients, standbys):
    """The slow twin writes down every pair that was ever together, as Java does."""
    random = Random(seed)
    tasks = T + [TaskId(1, partition) for partition in range(6)]
    table = PlanTable(
        Cluster(tuple(process(n % 6, []) for n in range(min(clients, 6))), frozenset(T), frozenset(tasks[8:]))
    )
    held: list[set[TaskId]] = [set() for _ in table.clients]
    together: set[frozenset[TaskId]] = set()

    def note(task: TaskId, client: int) -> None:
        together.update(frozenset((task, other)) for other in held[client])
        held[client].add(task)

    for number, task in enumerate(table.tasks):
        table.give_active(number, owner := random.randrange(len(table.clients)))
        note(task, owner)
    for number, task in enumerate(table.stateless):
        table.give_stateless(number, owner := random.randrange(min(2, len(table.clients))))
        note(task, owner)
    pairs = Pairs(table, 1)
    for number in sorted(range(len(table.tasks)), key=lambda _: random.random()):
        for _ in range(standbys):
            free = [client for client in range(len(table.clients)) if client not in table.holders[number]]
            for client in free:
                task = table.tasks[number]
                new = not held[client] or any(frozenset((task, other)) not in together for other in held[client])
                assert pairs.has_new_pair(number, client) is new
            if free:
                pairs.give_standby(number, client := random.choice(free))
                note(table.tasks[number], client)


@pytest.mark.parametrize(("clients", "wanted", "crowded"), [(2, 1, False), (4, 3, False), (3, 3, True)])
def test_pairs_count_until_every_task_meets_every_other(clients, wanted, crowded):
    table = PlanTable(stateful(*(process(n, []) for n in range(clients)), tasks=T[:2]))
    table.give_active(0, 0)
    table.give_active(1, 0)
    pairs = Pairs(table, wanted)
    pairs.give_standby(0, 1)
    assert pairs.has_new_pair(1, 1) is crowded


def test_a_removed_standby_no_longer_forms_pairs_there():
    table = PlanTable(stateful(*(process(n, []) for n in range(3)), tasks=T[:2]))
    table.give_active(0, 0)
    table.give_active(1, 1)
    pairs = Pairs(table, 1)
    pairs.give_standby(0, 2)
    pairs.take_standby(0, 2)
    pairs.give_standby(1, 2)
    assert pairs.has_new_pair(1, 0)


@given(tasks=st.integers(0, 40), capacity=st.lists(st.integers(1, 5), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_taking_seats_while_there_is_room_ends_with_even_shares(tasks, capacity, seed):
    random, seats, total = Random(seed), Seats(tasks, capacity), sum(capacity)
    for _ in range(tasks):
        seats.take(random.choice([client for client in range(len(capacity)) if seats.has_room(client)]))
    for count, threads in zip(seats.count, capacity, strict=True):
        if tasks >= total:
            assert tasks * threads // total <= count <= -(-tasks * threads // total)
        else:
            assert count <= threads
