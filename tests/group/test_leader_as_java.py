"""Equality with Java's ``StreamsPartitionAssignor``, method by method, for processes with several consumers."""

from __future__ import annotations

from uuid import UUID

import pytest

from kstreams_assign.assign import AssignConfig
from kstreams_assign.group.adoption import read_assignment
from kstreams_assign.group.values import ErrorCode
from kstreams_assign.model import NO_PROBE_MS, HostInfo
from tests.group.threaded import END, NOW_MS, SHAPE, Thread, actives, led, read_answers, standbys, task

A, B = UUID(int=1), UUID(int=2)
RUNS = -2
ALL = ["0_0", "0_1", "0_2", "0_3"]
SINGLE_WARMUP = AssignConfig(max_warmup_replicas=1)


def running(name: str, process: UUID, *tasks: str, **more: object) -> Thread:
    return Thread(name, process, tasks, dict.fromkeys(tasks, RUNS), **more)  # type: ignore[arg-type]


def test_assign_tasks_to_threads_gives_each_thread_back_what_it_had() -> None:
    decision = led([running("a1", A, "0_1", "0_2"), running("a2", A, "0_0", "0_3")], leader=A)
    assert actives(decision) == {"a1": ["0_1", "0_2"], "a2": ["0_0", "0_3"]}


def test_assign_tasks_to_threads_evens_out_and_populate_active_task_lists_withholds_between_threads_of_a_process() -> (
    None
):
    decision = led([running("a1", A, *ALL), Thread("a2", A)], leader=A)
    assert actives(decision) == {"a1": ["0_0", "0_1"], "a2": []}
    assert {t.partition: owner for t, owner in decision.withheld.items()} == {2: A, 3: A}
    assert read_answers(decision)["a2"].next_rebalance_ms == 0
    assert read_answers(decision)["a1"].next_rebalance_ms == NO_PROBE_MS


def test_compute_new_assignment_counts_standbys_in_before_it_deals_stateless_tasks() -> None:
    threads = [running("a1", A, "0_0", "0_1"), Thread("a2", A), running("b1", B, "0_2", "0_3")]
    caught_up = [Thread("a2", A, (), {"0_2": END, "0_3": END}) if t.name == "a2" else t for t in threads]
    decision = led(caught_up, leader=A, clicks=2, config=AssignConfig(num_standby_replicas=1))
    load = {name: len(actives(decision)[name]) + len(standbys(decision)[name]) for name in ("a1", "a2")}
    withheld = sum(owner == A for owner in decision.withheld.values())
    assert abs(load["a1"] - load["a2"]) <= 1 + withheld


def test_build_standby_task_map_keeps_a_withheld_task_open_where_it_was_a_standby() -> None:
    threads = [running("a1", A, *ALL), Thread("b1", B, (), dict.fromkeys(["0_2", "0_3"], END))]
    decision = led(threads, leader=A)
    assert decision.withheld
    assert set(map(str, decision.withheld)) <= {"0_2", "0_3"}
    assert set(map(str, decision.withheld)) <= set(standbys(decision)["b1"])


def test_build_standby_task_map_gives_no_standby_of_a_withheld_task_that_was_no_standby() -> None:
    decision = led([running("a1", A, *ALL), Thread("a2", A)], leader=A)
    assert standbys(decision)["a2"] == []


def test_add_client_assignments_gives_the_probing_time_to_the_first_consumer_of_the_leaders_process() -> None:
    threads = [running("a2", A, "0_0", "0_1"), running("a1", A, "0_2", "0_3"), Thread("b1", B)]
    due = {name: info.next_rebalance_ms for name, info in read_answers(led(threads, leader=A)).items()}
    assert due == {"a1": NOW_MS + 600_000, "a2": NO_PROBE_MS, "b1": NO_PROBE_MS}
    due = {name: info.next_rebalance_ms for name, info in read_answers(led(threads, leader=B)).items()}
    assert due == {"a1": NO_PROBE_MS, "a2": NO_PROBE_MS, "b1": NOW_MS + 600_000}


def test_add_client_assignments_gives_no_consumer_the_probing_time_where_the_first_consumer_waits_for_a_task() -> None:
    threads = [Thread("a1", A), running("a2", A, *ALL), Thread("b1", B)]
    decision = led(threads, leader=A)
    assert decision.next_probe_ms is not None
    due = {name: info.next_rebalance_ms for name, info in read_answers(decision).items()}
    assert due == {"a1": 0, "a2": NO_PROBE_MS, "b1": NO_PROBE_MS}


def test_add_client_assignments_gives_both_where_a_later_consumer_waits_for_a_task() -> None:
    threads = [running("a1", A, *ALL), Thread("a2", A), Thread("b1", B)]
    due = {name: info.next_rebalance_ms for name, info in read_answers(led(threads, leader=A)).items()}
    assert due == {"a1": NOW_MS + 600_000, "a2": 0, "b1": NO_PROBE_MS}


def test_previous_owner_for_partition_counts_each_claim_and_reports_a_double_claim() -> None:
    """``allOwnedPartitions``: a member that claims a partition and gets it keeps it, whatever others claim."""
    threads = [running("a1", A, "0_0", "0_1"), running("b1", B, "0_0", "0_2", "0_3")]
    decision = led(threads, leader=A)
    given = actives(decision)
    assert not decision.withheld
    assert sorted(given["a1"] + given["b1"]) == ALL
    assert any("owned by more than one member: orders-0" in warning for warning in decision.warnings)


def test_populate_partitions_by_host_maps_name_every_endpoint_and_the_future_owner_of_a_withheld_task() -> None:
    threads = [running("a1", A, *ALL, endpoint="a:1"), Thread("b1", B, (), {"0_3": END}, "b:2")]
    decision = led(threads, leader=A, config=SINGLE_WARMUP)
    info = read_answers(decision)["a1"]
    assert {str(host): [p.partition for p in ps] for host, ps in info.partitions_by_host.items()} == {
        str(HostInfo("a", 1)): [0, 1, 2],
        str(HostInfo("b", 2)): [3],
    }
    assert set(info.standby_partitions_by_host) == {HostInfo("a", 1), HostInfo("b", 2)}


def test_maybe_schedule_followup_rebalance_asks_at_once_where_the_own_endpoint_is_missing() -> None:
    """``verifyHostInfo``: a static member that restarted with another endpoint gets its old assignment back."""
    decision = led([running("a1", A, *ALL, endpoint="a:1")], leader=A)
    answer = decision.assignments["a1"]
    stays, moved = (
        read_assignment(answer.partitions, answer.user_data, SHAPE, A, endpoint)
        for endpoint in (HostInfo("a", 1), HostInfo("a", 2))
    )
    assert (stays.next_rebalance_ms, moved.next_rebalance_ms) == (NO_PROBE_MS, 0)


def test_two_processes_under_one_id_both_find_their_endpoints() -> None:
    """A copied state directory. Java names one endpoint, and the other member asks for a rebalance, for ever."""
    threads = [running("a1", A, "0_0", "0_1", endpoint="a:1"), running("a2", A, "0_2", endpoint="a:2")]
    decision = led([*threads, running("a3", A, "0_3", endpoint="a:2"), Thread("b1", B, endpoint="b:1")], leader=A)
    for name, endpoint in (("a1", HostInfo("a", 1)), ("a2", HostInfo("a", 2)), ("a3", HostInfo("a", 2))):
        answer = decision.assignments[name]
        adopted = read_assignment(answer.partitions, answer.user_data, SHAPE, A, endpoint)
        assert adopted.next_rebalance_ms != 0, name
    given, hosts = actives(decision), read_answers(decision)["b1"].partitions_by_host
    named = {host: [f"0_{partition.partition}" for partition in held] for host, held in hosts.items()}
    assert named[HostInfo("a", 2)] == sorted(given["a2"] + given["a3"])
    assert named[HostInfo("a", 1)] == given["a1"]
    assert sorted(read_answers(decision)["b1"].standby_partitions_by_host) == sorted(hosts)


def test_populate_client_states_map_without_end_offsets_falls_back_to_prior_owners_and_probes() -> None:
    threads = [running("a1", A, "0_0", "0_1", "0_2"), running("b1", B, "0_3"), Thread("b2", B)]
    decision = led(threads, leader=B, ends_known=False)
    assert decision.assignor == "fallback_prior"
    assert actives(decision) == {"a1": ["0_0", "0_1", "0_2"], "b1": ["0_3"], "b2": []}
    assert read_answers(decision)["b1"].next_rebalance_ms == NOW_MS + 600_000


def test_compute_task_lags_without_end_offsets_deals_unknown_tasks_before_running_ones() -> None:
    """Without ends the lag of each task that does not run is -3, which Java sorts before the -2 of running tasks."""
    decision = led(
        [Thread("a1", A, ["0_0"], {"0_0": RUNS, "0_1": END}), Thread("a2", A)], leader=A, orders=2, ends_known=False
    )
    assert actives(decision) == {"a1": ["0_1"], "a2": []}
    assert list(map(str, decision.withheld)) == ["0_0"]


@pytest.mark.parametrize("ends_known", [True, False])
@pytest.mark.parametrize("assignor", ["high_availability", "least_movement"])
def test_what_a_python_leader_promised_does_not_change_the_decision_of_a_mixed_group(
    assignor: str, ends_known: bool
) -> None:
    """Java's leader does not know to which process a withheld task was promised; the next leader may be Java's."""
    threads = [running("a1", A, "0_0", "0_2"), Thread("b1", B), Thread("c1", UUID(int=3), (), {"0_1": END})]
    promise = {task("0_1"): B}
    decisions = [
        led(threads, leader=A, orders=3, ends_known=ends_known, assignor=assignor, promised=promised)
        for promised in ({}, promise)
    ]
    assert actives(decisions[0]) == actives(decisions[1]) == {"a1": ["0_0", "0_2"], "b1": [], "c1": ["0_1"]}


@pytest.mark.parametrize("code", [ErrorCode.SHUTDOWN_REQUESTED])
def test_assign_answers_every_consumer_of_every_process_with_a_shutdown_that_any_consumer_requested(
    code: ErrorCode,
) -> None:
    threads = [running("a1", A, *ALL), Thread("a2", A, error_code=int(code)), Thread("b1", B)]
    decision = led(threads, leader=B)
    assert {name: info.error_code for name, info in read_answers(decision).items()} == dict.fromkeys(
        ("a1", "a2", "b1"), code
    )
    assert not any(answer.partitions for answer in decision.assignments.values())


def test_assign_answers_every_consumer_with_a_code_where_source_topics_are_missing() -> None:
    decision = led([running("a1", A, *ALL), Thread("b1", B)], leader=A, orders=0)
    codes = {info.error_code for info in read_answers(decision).values()}
    assert codes == {ErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA}
