"""A status built from the parts' views: of a leader, of a follower, of a group with little known."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from kstreams_assign.assign import ASSIGNORS, AssignConfig, Client, Cluster, TaskLags
from kstreams_assign.config import Config
from kstreams_assign.engine.stops import Stop
from kstreams_assign.group.member import State
from kstreams_assign.group.probing import Gain, Rejoin, Wait
from kstreams_assign.group.values import Adopted, LeaderState, WarmupQueue
from kstreams_assign.model import (
    RUNNING_OFFSET_SUM,
    HostInfo,
    RepartitionTopic,
    Store,
    SubtopologyShape,
    TaskId,
    TopicPartition,
    TopologyShape,
)
from kstreams_assign.restore.progress import TaskProgress
from kstreams_assign.status.as_json import as_json
from kstreams_assign.status.build import early_text, replica_progress, status_of
from kstreams_assign.status.values import Holder, ReplicaProgress
from kstreams_assign.status.views import ALL_CHANGELOGS, DrainView, EarlyView, JoinView, MemberView, Views
from kstreams_assign.tasks.lifecycle import TaskState

LEADER, NEW = UUID(int=1), UUID(int=2)
OLD_HOST, NEW_HOST = HostInfo("old", 80), HostInfo("new", 80)
T = [TaskId(0, partition) for partition in range(4)]
SHAPE = TopologyShape((SubtopologyShape(("orders",), (Store("totals"), Store("names"))),))
CONFIG = Config("shop", "nowhere:1", application_server="old:80", acceptable_recovery_lag=10)
NOW_MS, MONOTONIC_MS = 1_000_000, 50_000


def inputs(*tasks):
    return tuple(TopicPartition("orders", task.partition) for task in tasks)


def log(store, partition):
    return TopicPartition(f"shop-{store}-changelog", partition)


def standing():
    """The leader runs all four tasks; two warm up on a newcomer, which had 100 of each 1,000 when it joined."""
    ends = dict.fromkeys(T, 1_000)
    old = Client(LEADER, 1, frozenset(T), lags=TaskLags(ends, dict.fromkeys(T, RUNNING_OFFSET_SUM)))
    cluster = Cluster((old, Client(NEW, 1, lags=TaskLags(ends, dict.fromkeys(T, 100)))), frozenset(T))
    return decided(cluster, {LEADER: OLD_HOST, NEW: NEW_HOST})


def decided(cluster, endpoints):
    config, assign = AssignConfig(acceptable_recovery_lag=10, max_warmup_replicas=2), ASSIGNORS["least_movement"]
    known = {process: endpoint for process, endpoint in endpoints.items() if endpoint}
    return LeaderState(cluster, assign(cluster, config), config, assign, known)


WARM = tuple(sorted(standing().plan.placements[NEW].warmup))
ADOPTED = Adopted(
    active={task: inputs(task) for task in T},
    standby=frozenset(),
    warmup=frozenset(),
    next_probe_ms=NOW_MS + 5_000,
    assignor="least_movement",
    hosts={OLD_HOST: inputs(*T), NEW_HOST: ()},
    standby_hosts={OLD_HOST: (), NEW_HOST: inputs(*WARM)},
    warmups={NEW: WARM},
)
MEMBER = MemberView(State.STABLE, 3, ADOPTED, True, standing(), False, False, 5.0)
VIEWS = Views(
    member=MEMBER,
    early=EarlyView(due=True),
    roles=dict.fromkeys(T, "active"),
    states=dict.fromkeys(T, TaskState.RUNNING),
    progress={},
    queued=frozenset(),
    warnings={"decision": ["look out"]},
    records_total=10,
    commits_total=2,
    turned_ms=MONOTONIC_MS - 40,
    closing=False,
    failure=None,
    now_ms=NOW_MS,
    monotonic_ms=MONOTONIC_MS,
)


def going(at=100, end=1_100, moved=400, partition=ALL_CHANGELOGS):
    """Progress that stood at ``at`` four seconds ago, and had moved on two seconds ago."""
    begun = TaskProgress.begin({partition: at}, {partition: end}, MONOTONIC_MS - 4_000)
    return begun.advanced(partition, at + moved, MONOTONIC_MS - 2_000)


def test_a_stopped_task_has_its_reason_unless_it_is_being_tried_at_this_moment():
    task = min(T)
    stops = {task: Stop("no space left", 2, MONOTONIC_MS + 3_000, reported=True)}
    status = status_of(CONFIG, SHAPE, LEADER, replace(VIEWS, stopped=stops))
    [stopped] = [task for task in status.tasks if task.stopped]
    assert (stopped.task, stopped.state, stopped.stopped, stopped.retry_ms) == (task, "stopped", "no space left", 3_000)
    assert status.warnings[-1] == f"{task} is stopped: no space left; tried again in 3 s"
    tried = {task: replace(stops[task], retry_at_ms=None, trying=True)}
    assert not any(task.stopped for task in status_of(CONFIG, SHAPE, LEADER, replace(VIEWS, stopped=tried)).tasks)


def test_a_task_has_the_lags_of_its_own_input_and_says_whether_it_has_a_changelog():
    stateless = SubtopologyShape(("clicks",))
    shape = TopologyShape((*SHAPE.subtopologies, stateless))
    other, second = TaskId(1, 0), TopicPartition("clicks", 0)
    views = replace(
        VIEWS,
        roles={T[0]: "active", other: "active"},
        states={T[0]: TaskState.RUNNING, other: TaskState.RUNNING},
        input_lags={second: 7, **{TopicPartition("orders", n): n + 1 for n in range(2)}},
    )
    tasks = status_of(CONFIG, shape, LEADER, views).tasks
    assert [(task.task, task.has_changelog, task.inputs) for task in tasks] == [
        (T[0], True, {TopicPartition("orders", 0): 1}),
        (other, False, {second: 7}),
    ]


def test_a_topic_belongs_to_the_subtopology_that_names_it_else_to_the_one_whose_pattern_matches_it():
    internal, pattern = "shop-by-name-repartition", SubtopologyShape((), (Store("totals"),), pattern=".*")
    shape = TopologyShape((pattern, SubtopologyShape((internal,), repartition=(RepartitionTopic(internal),))))
    second = TaskId(1, 0)
    views = replace(
        VIEWS,
        roles={T[0]: "active", second: "active"},
        states={T[0]: TaskState.RUNNING, second: TaskState.RUNNING},
        input_lags={TopicPartition(internal, 0): 7, TopicPartition("orders", 0): 3},
    )
    assert [(task.task, task.inputs) for task in status_of(CONFIG, shape, LEADER, views).tasks] == [
        (T[0], {TopicPartition("orders", 0): 3}),
        (second, {TopicPartition(internal, 0): 7}),
    ]
    hosts = {OLD_HOST: (TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition(internal, 0))}
    follower = replace(MEMBER, leads=False, standing=None, adopted=Adopted({}, frozenset(), frozenset(), hosts=hosts))
    status = status_of(
        replace(CONFIG, application_server="new:80"), shape, NEW, replace(VIEWS, member=follower, states={})
    )
    assert status.holders[1:] == (Holder(None, OLD_HOST, (T[0], T[1], second), (), ()),)


def test_an_internal_topic_that_no_subtopology_names_is_of_none():
    """A member of another release may have it; patterns match no internal topics."""
    shape = TopologyShape((SubtopologyShape((), pattern=".*"),))
    hosts = {OLD_HOST: (TopicPartition("shop-by-name-repartition", 0),)}
    follower = replace(MEMBER, leads=False, standing=None, adopted=Adopted({}, frozenset(), frozenset(), hosts=hosts))
    status = status_of(
        replace(CONFIG, application_server="new:80"), shape, NEW, replace(VIEWS, member=follower, states={})
    )
    assert status.holders[1:] == (Holder(None, OLD_HOST, (), (), ()),)


def test_a_paused_task_runs_and_says_since_when():
    tasks = status_of(CONFIG, SHAPE, LEADER, replace(VIEWS, paused={T[0]: 5})).tasks
    assert {task.task: task.paused_ms for task in tasks if task.paused_ms is not None} == {T[0]: 5}


def test_progress_that_stands_still_loses_its_rate():
    progress = replica_progress(going(partition=log("totals", 0)), MONOTONIC_MS)
    assert progress == ReplicaProgress(600, 500 / 1_100, 100.0, 6_000, {log("totals", 0): 600})
    later = replica_progress(going(partition=log("totals", 0)), MONOTONIC_MS + 60_000)
    assert (later.offsets_per_s, later.left_ms) == (None, None)
    begun = TaskProgress.begin({ALL_CHANGELOGS: 5}, {ALL_CHANGELOGS: 9}, MONOTONIC_MS)
    rates = [replica_progress(begun, MONOTONIC_MS + ms).offsets_per_s for ms in (0, 4_999, 5_000)]
    assert rates == [None, None, 0], "too little to tell is not the same as no step"
    assert replica_progress(going(), MONOTONIC_MS).changelogs == {}
    assert replica_progress(going(at=0, end=0, moved=0), MONOTONIC_MS).warm == 1.0


def test_the_leader_names_all_processes_with_the_lags_as_of_the_last_join():
    status = status_of(CONFIG, SHAPE, LEADER, VIEWS)
    assert status.holders == (
        Holder(LEADER, OLD_HOST, tuple(T), (), ()),
        Holder(NEW, NEW_HOST, (), (), WARM),
    )
    assert [(warmup.task, warmup.progress) for warmup in status.warmups] == [
        (task, ReplicaProgress(900, as_joined=True)) for task in WARM
    ]
    assert status.warmups[0].changelogs == (log("totals", WARM[0].partition), log("names", WARM[0].partition))
    assert (status.leader, status.names()[NEW], status.next_probe_ms) == (LEADER, "new:80", NOW_MS + 5_000)
    assert (status.warnings, status.since_turn_ms, status.lease_left_ms) == (("decision: look out",), 40, 5_000)


def test_the_leader_names_each_process_once_also_those_without_tasks():
    idle = {UUID(int=5): HostInfo("a", 80), UUID(int=6): HostInfo("b", 80), UUID(int=7): None}
    clients = (Client(LEADER, 1, frozenset(T)), *(Client(process, 1) for process in idle))
    cluster = Cluster(clients, frozenset(), frozenset(T[:1]))
    hosts = {OLD_HOST: inputs(T[0]), **{host: () for host in idle.values() if host}}
    adopted = replace(ADOPTED, hosts=hosts, standby_hosts=dict.fromkeys(hosts, ()), active={T[0]: inputs(T[0])})
    member = replace(MEMBER, adopted=adopted, standing=decided(cluster, {LEADER: OLD_HOST, **idle}))
    status = status_of(CONFIG, SHAPE, LEADER, replace(VIEWS, member=member))
    assert status.holders == (
        Holder(LEADER, OLD_HOST, (T[0],), (), ()),
        *(Holder(process, host, (), (), ()) for process, host in idle.items()),
    )


def test_newer_reports_to_the_leader_take_precedence():
    copies = {(NEW, WARM[0]): going(), (NEW, WARM[1]): going(at=700, end=1_000, moved=290)}
    status = status_of(CONFIG, SHAPE, LEADER, replace(VIEWS, early=EarlyView(due=True, copies=copies)))
    assert [(warmup.progress.lag, warmup.progress.as_joined, warmup.caught_up) for warmup in status.warmups] == [
        (600, False, False),
        (10, False, True),
    ]


def test_a_follower_names_others_by_the_host_maps_and_the_owner_of_warm_ups_where_only_one_fits():
    adopted = replace(ADOPTED, active={}, warmup=frozenset(WARM))
    views = replace(
        VIEWS,
        member=replace(MEMBER, adopted=adopted, leads=False, standing=None),
        roles=dict.fromkeys(WARM, "warmup"),
        states=dict.fromkeys(WARM, TaskState.TAILING),
        progress={WARM[0]: going(partition=log("totals", WARM[0].partition))},
    )
    new = status_of(replace(CONFIG, application_server="new:80"), SHAPE, NEW, views)
    assert new.holders == (Holder(NEW, NEW_HOST, (), (), WARM), Holder(None, OLD_HOST, tuple(T), (), ()))
    assert [task.progress.lag if task.progress else None for task in new.tasks] == [600, None]
    assert [warmup.progress.lag if warmup.progress else None for warmup in new.warmups] == [600, None]
    third = UUID(int=3)
    other = status_of(replace(CONFIG, application_server="third:80"), SHAPE, third, views)
    assert Holder(NEW, NEW_HOST, (), (), WARM) in other.holders
    assert {warmup.progress for warmup in other.warmups} == {None}
    nameless = replace(views, member=replace(views.member, adopted=replace(adopted, hosts={}, standby_hosts={})))
    blind = status_of(replace(CONFIG, application_server=None), SHAPE, third, nameless)
    assert blind.holders[1:] == (Holder(NEW, None, None, None, WARM),)


def test_warm_ups_that_wait_in_the_queue_are_shown_as_queued():
    adopted = replace(ADOPTED, active={}, warmup=frozenset(WARM), queue=WarmupQueue(WARM, 1))
    views = replace(
        VIEWS,
        member=replace(MEMBER, adopted=adopted, leads=False, standing=None),
        roles=dict.fromkeys(WARM, "warmup"),
        states=dict.fromkeys(WARM, TaskState.TAILING),
        progress={task: going() for task in WARM},
        queued=frozenset({WARM[1]}),
    )
    status = status_of(CONFIG, SHAPE, NEW, views)
    assert [(task.task, task.state) for task in status.tasks] == [(WARM[0], "tailing"), (WARM[1], "queued")]
    assert [(warmup.task, warmup.queued) for warmup in status.warmups] == [(WARM[0], False), (WARM[1], True)]
    none = status_of(CONFIG, SHAPE, NEW, replace(views, queued=frozenset()))
    assert [task.state for task in none.tasks] == ["tailing", "tailing"]


def test_a_task_that_has_just_become_active_is_not_queued_although_the_restorer_has_not_been_asked_again():
    views = replace(VIEWS, states=dict.fromkeys(T, TaskState.RESTORING), queued=frozenset(T))
    assert {task.state for task in status_of(CONFIG, SHAPE, LEADER, views).tasks} == {"restoring"}


def test_the_groups_protocol_is_in_the_json():
    protocols = [
        as_json(status_of(config, SHAPE, LEADER, VIEWS))["group_protocol"]
        for config in (CONFIG, replace(CONFIG, group_protocol="streams"))
    ]
    assert protocols == ["classic", "streams"]


def test_a_member_that_drains_in_a_streams_group_shows_its_tasks_next_owners():
    drain = DrainView({T[1]: "one", T[0]: "other"}, frozenset({T[1]}))
    shown = as_json(
        status_of(CONFIG, SHAPE, LEADER, replace(VIEWS, member=replace(MEMBER, draining=True, drain=drain)))
    )
    assert shown["drain"] == {
        str(T[0]): {"member_id": "other", "warm": False},
        str(T[1]): {"member_id": "one", "warm": True},
    }
    assert as_json(status_of(CONFIG, SHAPE, LEADER, VIEWS))["drain"] is None


def test_a_process_that_is_about_to_join_a_streams_group_shows_what_it_restores():
    join = JoinView(frozenset({T[0], T[1]}), frozenset({T[1]}), 2)
    shown = as_json(status_of(CONFIG, SHAPE, LEADER, replace(VIEWS, member=replace(MEMBER, join=join))))
    assert shown["join"] == {"tasks": {str(T[0]): {"warm": False}, str(T[1]): {"warm": True}}, "joiners": 2}
    assert as_json(status_of(CONFIG, SHAPE, LEADER, VIEWS))["join"] is None


def test_before_the_first_assignment_unknown_values_stay_empty():
    member = MemberView(State.JOINING, None, None, False, None, False, False, -1.0)
    status = status_of(CONFIG, SHAPE, LEADER, replace(VIEWS, member=member, states={}, roles={}, early=EarlyView()))
    assert (status.assigned, status.holders, status.tasks, status.warmups) == (False, (), (), ())
    assert (status.assignor, status.next_probe_ms, status.leader) == (None, None, None)


def test_an_active_task_has_caught_up_at_its_end_only_and_a_replica_within_the_acceptable_lag():
    views = replace(
        VIEWS,
        roles={T[0]: "active", T[1]: "standby"},
        states={T[0]: TaskState.RESTORING, T[1]: TaskState.TAILING, T[2]: TaskState.TAILING},
        progress=dict.fromkeys(T, going(moved=995)),
    )
    tasks = status_of(CONFIG, SHAPE, LEADER, views).tasks
    assert [(task.role, task.progress.lag, task.caught_up) for task in tasks] == [
        ("active", 5, False),
        ("standby", 5, True),
        ("leaving", 5, True),
    ]


@pytest.mark.parametrize(
    ("early", "leads", "text"),
    [
        (EarlyView(off="no access"), True, "off (no access): the probing interval applies"),
        (EarlyView(), True, "nothing is due"),
        (EarlyView(due=True), False, "this member reports its replicas' positions to the leader"),
        (
            EarlyView(due=True, alone=True),
            False,
            "this member asks for a rebalance once its own replicas have caught up",
        ),
        (EarlyView(due=True), True, "no member has reported yet"),
        (
            EarlyView(due=True, gain=Gain(0, 2), answer=Wait()),
            True,
            "no task can move yet, replicas still restoring: 2",
        ),
        (EarlyView(due=True, gain=Gain(2, 0), answer=Wait()), True, "tasks that can move: 2"),
        (EarlyView(due=True, gain=Gain(2, 1), answer=Wait(MONOTONIC_MS + 3_000)), True, "asks for a rebalance in 3 s"),
        (EarlyView(due=True, gain=Gain(2, 1), answer=Rejoin("now")), True, "has asked for a rebalance"),
    ],
)
def test_early_probing_is_described_in_words(early, leads, text):
    assert text in early_text(early, MONOTONIC_MS, leads=leads)


def test_a_streams_group_has_no_early_probing():
    status = status_of(replace(CONFIG, group_protocol="streams"), SHAPE, NEW, replace(VIEWS, early=EarlyView("why")))
    assert status.early == ""
