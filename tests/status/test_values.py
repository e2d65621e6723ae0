"""The verdicts that an orchestrator reads, and their reasons."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from kstreams_assign.group.member import State
from kstreams_assign.model import TaskId
from kstreams_assign.status.values import ReplicaProgress, Status, TaskStatus, live, ready, scalable
from kstreams_assign.status.views import DrainView, GlobalTableView, JoinView
from kstreams_assign.wire import AwaitedProcess
from tests.status.statuses import NEW, NOW_MS, changelog, settled, task, warm_up, warming

RESTORING = (TaskStatus(task(0), "active", "restoring", ReplicaProgress(500, 0.5, 100.0, 5_000, {changelog(0): 500})),)
FRESH = (TaskStatus(task(0), "active", "restoring", None),)
STOPPED = (TaskStatus(task(0), "active", "stopped", None, stopped="no space left", retry_ms=4_000),)
STOPPED_COPY = (TaskStatus(task(0), "standby", "stopped", None, stopped="no space left"),)
COLD_COPY = (TaskStatus(task(0), "warmup", "tailing", ReplicaProgress(500, 0.5)),)

TABLE = [
    # condition, live, ready, scalable, a part of the reason
    (
        "a task is stopped",
        settled(tasks=STOPPED),
        True,
        False,
        False,
        "0_0 is stopped: no space left; tried again in 4 s",
    ),
    ("a copy is stopped", settled(tasks=STOPPED_COPY), True, True, True, ""),
    ("nothing", settled(), True, True, True, ""),
    ("a thread failed", settled(failure="ValueError: no"), False, False, False, "an error: ValueError: no"),
    (
        "the loop hangs",
        settled(since_turn_ms=300_001),
        False,
        False,
        False,
        "has not run for 5 min, longer than",
    ),
    ("the loop works", settled(since_turn_ms=300_000), True, True, True, ""),
    (
        "another restarts",
        settled(awaited={UUID(int=77): AwaitedProcess(42_000, (task(0), task(1)))}),
        True,
        True,
        False,
        "restarts: those of its 2 tasks without a caught-up replica wait, 42 s at most",
    ),
    ("about to restart", settled(restarting=True), True, True, False, "this member is about to restart"),
    ("not joined", settled(state=State.UNJOINED), True, False, False, "has not joined the group yet"),
    ("about to join", settled(state=State.PREPARING), True, False, False, "a rebalance begins"),
    ("joins", settled(state=State.JOINING), True, False, False, "the assignment has not arrived yet"),
    ("lets go", settled(state=State.RELEASING), True, False, False, "are being flushed and closed"),
    ("closes", settled(closing=True, since_turn_ms=300_001), True, False, False, "it is closing"),
    ("no heartbeat", settled(lease_left_ms=0), True, False, False, "no heartbeat was answered"),
    (
        "state lacks",
        settled(tasks=RESTORING),
        True,
        False,
        False,
        "0_0 is being restored: lag 500 in shop-totals-changelog-0, 100 records a second, 5 s left",
    ),
    (
        "ends unknown",
        settled(tasks=FRESH),
        True,
        False,
        False,
        "0_0 is being restored; the end offsets of its changelogs",
    ),
    ("a copy lacks", settled(tasks=COLD_COPY), True, True, True, ""),
    ("probe", settled(next_probe_ms=NOW_MS + 60_000), True, True, False, "a probing rebalance is due in 1 min"),
    ("probe late", settled(next_probe_ms=NOW_MS - 1), True, True, False, "a probing rebalance is due"),
    ("follow-up", settled(follow_up=True), True, True, False, "a follow-up rebalance comes at once"),
    (
        "keeps warm",
        settled(follow_up=True, streams_group=True),
        True,
        True,
        False,
        "keeps tasks warm that are between two",
    ),
    ("foreign leader", settled(assignor=None), True, True, False, "the leader is not a kstreams-assign member"),
    ("drains", settled(draining=True), True, True, False, "this member is draining"),
    (
        "drains in a streams group",
        settled(draining=True, drain=DrainView({TaskId(0, 1): "a", TaskId(0, 2): "b"}, frozenset({TaskId(0, 2)}))),
        True,
        True,
        False,
        "this member is draining: its tasks are being warmed up elsewhere: 1 of 2 are warm",
    ),
    (
        "drains in a streams group whose static member is away",
        settled(draining=True, drain=DrainView({TaskId(0, 1): "a"}, frozenset(), ("i1",))),
        True,
        True,
        False,
        "this member is draining: its tasks are being warmed up elsewhere: 0 of 1 are warm; it waits for i1, away",
    ),
    (
        "is about to join a streams group",
        settled(join=JoinView(frozenset({TaskId(0, 1), TaskId(0, 2)}), frozenset({TaskId(0, 2)}), 1)),
        True,
        True,
        False,
        "this process restores its tasks before it joins the group: 1 of 2 are warm; 1 other process joins with it",
    ),
    (
        "warm-up",
        settled(warmups=(warm_up(1, ReplicaProgress(41_000, 0.6, 850.0, 48_000)),)),
        True,
        True,
        False,
        "0_1 warms up on 03000000: lag 41,000 in shop-totals-changelog-1, 850 records a second, 48 s left",
    ),
    (
        "warm-up that stands still",
        settled(warmups=(warm_up(1, ReplicaProgress(41_000, 0.6, 0.0)),)),
        True,
        True,
        False,
        "lag 41,000 in shop-totals-changelog-1, 0 records a second, it is not catching up",
    ),
    (
        "warm-up as it joined",
        settled(warmups=(warm_up(1, ReplicaProgress(9, as_joined=True)),)),
        True,
        True,
        False,
        "its lag was 9 in shop-totals-changelog-1 when its process joined",
    ),
    ("warm-up elsewhere", settled(warmups=(warm_up(1, None),)), True, True, False, "and by the leader"),
    (
        "warm-up in a queue",
        settled(warmups=(warm_up(1, ReplicaProgress(9), queued=True),)),
        True,
        True,
        False,
        "it waits in the warm-up queue",
    ),
    (
        "warm-up is warm",
        settled(warmups=(warm_up(1, ReplicaProgress(0, 1.0), caught_up=True),)),
        True,
        True,
        False,
        "0_1 warms up on 03000000: it has caught up (lag 0) and waits for the next rebalance",
    ),
]


@pytest.mark.parametrize(
    ("status", "alive", "fit", "calm", "why"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE]
)
def test_each_status_has_its_verdicts_with_the_reason(status, alive, fit, calm, why):
    verdicts = [live(status), ready(status), scalable(status)]
    assert [verdict.ok for verdict in verdicts] == [alive, fit, calm]
    assert all(why in " ".join(verdict.reasons) for verdict in verdicts if not verdict.ok)
    assert all(verdict.ok == (not verdict.reasons) for verdict in verdicts)


def test_many_reasons_of_one_kind_are_listed_up_to_a_limit_and_the_rest_counted():
    many = tuple(warm_up(n, ReplicaProgress(9, 0.5)) for n in range(30))
    reasons = scalable(settled(warmups=many)).reasons
    assert len(reasons) == 9
    assert reasons[-1] == "... and 22 more warm-ups"


def test_a_process_is_named_by_its_endpoint_or_the_unique_start_of_its_id():
    assert warming("new-pod").names()[NEW] == "new-pod:80"
    assert settled().names()[settled().process_id] == "this process"
    twin = UUID(int=NEW.int + (1 << 88))
    alike = settled(warmups=(warm_up(1, None), replace(warm_up(2, None), process=twin)))
    assert (alike.names()[NEW], alike.names()[twin]) == ("03000000-00", "03000000-01")


def test_a_global_table_that_is_not_complete_is_a_reason_against_ready_and_scalable():
    def table(**changes) -> Status:
        return settled(
            global_tables=(GlobalTableView("countries", "codes", **{"ready": False, "lag": None, **changes}),)
        )

    assert ready(table(ready=True, lag=7)).ok
    assert ready(table()).reasons == ("global table countries cannot be read yet",)
    assert ready(table(lag=1_234)).reasons == ("global table countries cannot be read yet, 1,234 offsets left",)
    assert not scalable(table(lag=1_234)).ok
    assert live(table(lag=1_234)).ok
    assert ready(table(stopped="no space left")).reasons == (
        "global table countries cannot be read yet: no space left",
    )
