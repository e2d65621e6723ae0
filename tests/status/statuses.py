"""Example statuses: a settled worker, and one whose group warms up a newcomer."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from kstreams_assign.group.member import State
from kstreams_assign.model import HostInfo, TaskId, TopicPartition
from kstreams_assign.status.values import Holder, ReplicaProgress, Status, TaskStatus, WarmUp
from kstreams_assign.status.views import BOUNDS_S, DurationView, GlobalTableView, Meters

PROCESS_ID, THERE, NEW = (UUID(int=n << 120) for n in (1, 2, 3))
NOW_MS = 1_800_000_000_000
NOWHERE = "<img src=x onerror=window.hit=1>"


def task(partition: int) -> TaskId:
    return TaskId(0, partition)


def changelog(partition: int) -> TopicPartition:
    return TopicPartition("shop-totals-changelog", partition)


def orders(partition: int) -> TopicPartition:
    return TopicPartition("orders", partition)


METERS = Meters(
    rebalances=DurationView((0, 1, 0, 1, *(0,) * (len(BOUNDS_S) - 4), 1), 2.5),
    commits=DurationView((0, 1_234, *(0,) * (len(BOUNDS_S) - 1)), 10.0),
    commit_failures_total=4,
    records_consumed={(task(0), "orders"): 120_000, (task(1), "orders"): 3_456},
    records_produced={(task(0), "totals"): 60_000},
    records_dropped={task(0): 3},
    dead_letters={task(0): 2},
    punctuated_total=17,
    timers_fired={task(0): 40, task(1): 2},
    entries_expired={task(1): 8},
    restored={task(0): 5_000},
    updated={task(2): 900},
    state_bytes={task(0): 4_096},
)


def settled(**changes) -> Status:
    """The worker runs two tasks and keeps a standby; nothing is under way."""
    status = Status(
        application_id="shop",
        process_id=PROCESS_ID,
        now_ms=NOW_MS,
        state=State.STABLE,
        generation=7,
        assigned=True,
        assignor="least_movement",
        leads=True,
        endpoint=HostInfo("here", 80),
        tasks=(
            TaskStatus(task(0), "active", "running", ReplicaProgress(0, 1.0), caught_up=True, inputs={orders(0): 0}),
            TaskStatus(task(1), "active", "running", ReplicaProgress(0, 1.0), caught_up=True, inputs={orders(1): 250}),
            TaskStatus(
                task(2), "standby", "tailing", ReplicaProgress(12, 0.999, 40.0, 300, {changelog(2): 12}), caught_up=True
            ),
        ),
        holders=(
            Holder(PROCESS_ID, HostInfo("here", 80), (task(0), task(1)), (task(2),), ()),
            Holder(THERE, HostInfo("there", 80), (task(2),), (task(0), task(1)), ()),
        ),
        early="nothing is due",
        lease_left_ms=5_000,
        records_total=123_456,
        commits_total=1_234,
        transactions_aborted_total=3,
        records_out_total=120_000,
        input_lags={orders(0): 0, orders(1): 250},
        meters=METERS,
        global_tables=(GlobalTableView("countries", "country-codes", ready=True, lag=3),),
    )
    return replace(status, **changes)


def warm_up(partition: int, progress: ReplicaProgress | None, **more) -> WarmUp:
    return WarmUp(task(partition), NEW, (changelog(partition),), progress, **more)


def warming(name: str = "newcomer") -> Status:
    """A third process warms up, as the leader sees it; one replica is slow."""
    newcomer = Holder(NEW, HostInfo(name, 80), (), (), (task(0), task(1)))
    return settled(
        holders=(*settled().holders, newcomer),
        warmups=(
            warm_up(0, ReplicaProgress(0, 1.0), caught_up=True),
            warm_up(1, ReplicaProgress(41_000, 0.59, 850.0, 48_000)),
        ),
        next_probe_ms=NOW_MS + 552_000,
        early="the leader reads progress records; no task can move yet, replicas still restoring: 1",
        warnings=(f"decision: members run with different settings {name}",),
    )
