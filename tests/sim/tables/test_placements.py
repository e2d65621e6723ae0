"""The rules of other systems, and the storm for which KIP-441 rejects rebalances that members ask for."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from kstreams_assign.assign import AssignConfig, Client, Cluster, TaskLags, check
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId
from kstreams_assign.sim.policies import FIRST, RELATED, members_ask
from kstreams_assign.sim.policies.cruise_control import TasksAreEven, optimized
from kstreams_assign.sim.policies.elasticsearch import Balancer, elasticsearch
from kstreams_assign.sim.policies.heron import heron
from kstreams_assign.sim.policies.kafka_consumer import sticky_consumer
from kstreams_assign.sim.policies.redis_cluster import redis_cluster
from kstreams_assign.sim.policies.samza import samza
from kstreams_assign.sim.policies.yarn import yarn
from kstreams_assign.sim.tables.compare import WIDTH
from kstreams_assign.sim.tables.measure import measure
from kstreams_assign.sim.tables.probing import DOUBLED, GROUP_OF_EIGHT, RULES, probing_facts, probing_table, probings
from kstreams_assign.sim.tables.situations import GROUP, SITUATIONS

A, B, C = (UUID(int=number) for number in (1, 2, 3))
END = 100_000
SCALE_OUT = SITUATIONS[2]


def tasks(text):
    return frozenset(map(TaskId.parse, text.split()))


def cluster(every="0_0 0_1 0_2 0_3 0_4 0_5", stateless="", **processes):
    """``A="0_0 0_1"`` runs these; ``B="|0_0@500"`` has a copy that lags."""
    stateful = tasks(every)

    def client(name, text):
        running, _, copies = text.partition("|")
        lags = {TaskId.parse(client.split("@")[0]): int(client.split("@")[1]) for client in copies.split()}
        sums = dict.fromkeys(tasks(running) & stateful, RUNNING_OFFSET_SUM) | {t: END - lag for t, lag in lags.items()}
        ends = dict.fromkeys(stateful, END)
        return Client({"A": A, "B": B, "C": C}[name], 1, tasks(running), frozenset(lags), TaskLags(ends, sums))

    return Cluster(tuple(client(name, text) for name, text in processes.items()), stateful, tasks(stateless))


def runs(plan, process):
    return " ".join(map(str, sorted(plan.placements[process].active)))


CONFIG = AssignConfig(acceptable_recovery_lag=1_000)


def test_elasticsearchs_weight_is_as_the_kip_quotes_it():
    """Two indexes of two shards; one node has three of the four shards, both of the first index among them."""
    client = cluster("0_0 0_1 1_0 1_1", A="0_0 0_1 1_0", B="1_1")
    balancer = Balancer(client, {task: c.process_id for c in client.clients for task in c.prev_active})
    assert balancer.weight(A, 0) == pytest.approx(0.45 * (3 - 2) + 0.55 * (2 - 1))
    assert balancer.weight(B, 0, 1) == pytest.approx(0.45 * (1 + 1 - 2) + 0.55 * (0 + 1 - 1))


def test_elasticsearch_moves_two_at_a_time_and_only_what_is_copied():
    cold = elasticsearch(cluster(A="0_0 0_1 0_2 0_3 0_4 0_5", B=""), CONFIG)
    assert (runs(cold, B), len(cold.placements[B].warmup), cold.probing) == ("", 2, True)
    warm = elasticsearch(cluster(A="0_0 0_1 0_2 0_3 0_4 0_5", B="|0_3@0 0_5@10"), CONFIG)
    assert runs(warm, B) == "0_3 0_5"


def test_a_goal_does_not_undo_earlier_goals():
    class StaysOnA:
        def proposals(self, owners):  # noqa: ARG002
            return iter(())

        def accepts(self, owners, move):  # noqa: ARG002
            return move.to == A or move.task != TaskId(0, 0)

    client = cluster("0_0 0_1 0_2", A="0_0 0_1 0_2", B="")
    owners = dict.fromkeys(client.stateful, A)
    even = TasksAreEven(client)
    assert optimized(owners, [even])[TaskId(0, 0)] == B
    assert optimized(owners, [StaysOnA(), even])[TaskId(0, 1)] == B


def test_elasticsearch_balances_after_promoting_replicas():
    """A replica that takes over is allocated at once, so moves may follow in the same decision."""
    plan = elasticsearch(cluster("0_0 0_1 0_2 0_3", A="0_0|0_1@0 0_2@0 0_3@0", B="|0_0@0 0_1@200 0_2@200"), CONFIG)
    assert [len(plan.placements[process].active) for process in (A, B)] == [2, 2]


def test_the_consumers_assignor_keeps_even_shares_and_gives_the_rest_to_the_least_loaded():
    plan = sticky_consumer(cluster(A="0_0 0_1 0_2 0_3", B="0_4 0_5", C=""), CONFIG)
    assert [len(plan.placements[process].active) for process in (A, B, C)] == [2, 2, 2]
    assert runs(plan, B) == "0_4 0_5"


def test_a_redis_node_runs_tasks_or_copies_another_nodes():
    plan = redis_cluster(cluster(A="0_0 0_1 0_2 0_3 0_4 0_5", B=""), AssignConfig(num_standby_replicas=1))
    assert (plan.placements[A].standby, plan.placements[B].active) == (frozenset(), frozenset())
    assert plan.placements[B].standby == plan.placements[A].active
    lost = redis_cluster(cluster(B="|0_0@0 0_1@0 0_2@0 0_3@0 0_4@0 0_5@0", C=""), AssignConfig(num_standby_replicas=1))
    assert runs(lost, B) == "0_0 0_1 0_2 0_3 0_4 0_5"


def test_samza_goes_where_the_state_is_while_there_is_room():
    plan = samza(cluster(A="0_0 0_1 0_2", B="|0_3@0 0_4@50000"), CONFIG)
    assert runs(plan, B) == "0_3 0_4 0_5"


def test_yarn_assigns_orphaned_tasks_and_takes_none_back():
    assert runs(yarn(cluster(A="0_0 0_1 0_2 0_3 0_4", B=""), CONFIG), B) == "0_5"


def test_herons_plan_does_not_look_at_state():
    assert runs(heron(cluster(A="0_1 0_3 0_5", B="0_0 0_2 0_4"), CONFIG), A) == "0_0 0_2 0_4"


@pytest.mark.parametrize("policy", [client for client in RELATED if client.assign], ids=lambda policy: policy.name)
def test_every_task_has_an_owner_and_no_process_two_copies(policy):
    client = cluster(A="0_0 0_1 0_2", B="|0_0@0 0_3@99", C="", stateless="1_0 1_1")
    config = AssignConfig(num_standby_replicas=1, max_warmup_replicas=100)
    faults = check(client, config, policy.assign(False)(client, config))
    assert [fault for fault in faults if "standby" not in fault and "rank" not in fault] == []


def test_each_policy_has_a_description_and_a_name_of_its_own():
    names = [policy.name for policy in (*FIRST, *RELATED[:-2], members_ask.POLICY)]
    assert len(names) == len(set(names)) == 17
    assert all(policy.taken for policy in RELATED)


def test_policies_that_copy_first_have_no_downtime_and_those_that_move_nothing_stay_uneven():
    costs = {policy.name: measure(policy, SCALE_OUT, replace(GROUP, standbys=0)) for policy in RELATED}
    assert [client.violations for client in costs.values() if client.violations] == []
    waits = {name for name, client in costs.items() if client.downtime_s > 100}
    assert waits == {"kafka_consumer", "samza", "flink", "heron"}
    assert {name for name, client in costs.items() if client.uneven > 1} == {"redis_cluster", "yarn", "heron"}


def test_members_that_ask_make_a_storm_and_early_probing_makes_none():
    few = replace(GROUP_OF_EIGHT, partitions=32)
    storm, early = (replace(RULES[at], settings={**RULES[at].settings, "max_warmup_replicas": 32}) for at in (1, 5))
    stormy, calm = measure(storm, DOUBLED, few), measure(early, DOUBLED, few)
    assert calm.moves == 16
    assert stormy.rebalances > 3 * calm.rebalances
    assert calm.settled_s < stormy.settled_s


def test_probing_is_printed_by_rule_and_warmups():
    probed = list(probings(RULES[5:], (8,)))
    lines = list(probing_table(probed))
    assert lines[-1].split()[:2] == ["ours,", "early"]
    assert max(map(len, lines)) <= WIDTH
    assert probing_facts(probed)[0]["rebalances"] == int(lines[-1].split()[2])
