"""Makes a running task of what the restore thread gives back: its stores, and where its input begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kstreams_assign.adapters.clock import Clocks
from kstreams_assign.engine.effects import Inputs
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.tasks.input_offsets import InputOffsets
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.tasks.times import PartitionTime, Position
from kstreams_assign.topology.flows import Flow
from kstreams_assign.worker.at_work import AtWork
from kstreams_assign.worker.expiring import task_expiry
from kstreams_assign.worker.global_views import Views
from kstreams_assign.worker.running import Running
from kstreams_assign.worker.task_workspace import TaskWorkspace


class Arrival(NamedTuple):
    """What the restore thread gives with an active task: its input positions, and the offsets read for it."""

    positions: Mapping[TopicPartition, Position]
    restored: int


def running_task(
    task: TaskId,
    flow: Flow,
    stores: TaskStores | None,
    inputs: Inputs,
    positions: Mapping[TopicPartition, Position],
    application_id: str,
    clocks: Clocks,
    global_tables: Views,
) -> Running:
    """Return a task that works from these positions on."""
    at = {partition: positions[partition].offset for partition in inputs}
    times = {partition: PartitionTime(positions[partition].metadata) for partition in inputs}
    workspace = TaskWorkspace(
        task,
        flow.shape,
        flow.sinks,
        stores,
        AtWork(clocks.wall_ms()),
        times,
        application_id,
        flow.timers,
        clocks.wall_ms,
        task_expiry(flow.shape, stores, times, clocks.wall_ms),
        global_tables,
    )
    return Running(workspace, InputOffsets(at), times)
