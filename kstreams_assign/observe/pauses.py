"""Which tasks of a group are paused, from what is kept beside their committed offsets."""

from __future__ import annotations

from kstreams_assign.model import TaskId
from kstreams_assign.observe.decoded import DecodedGroup
from kstreams_assign.tasks.pausing import PauseMark
from kstreams_assign.wire.offset_metadata import read_offset_metadata


def paused_tasks(group: DecodedGroup) -> dict[TaskId, int]:
    """Return the paused tasks: task -> since when, in milliseconds since 1970.

    Assignments pair active tasks with their inputs, so nothing is known of a task that no process runs.
    """
    committed = group.snapshot.committed_metadata
    marks = {
        task: PauseMark.merged(
            PauseMark.read(read_offset_metadata(committed[at]).processor) for at in inputs if at in committed
        )
        for member in group.members.values()
        if member.given
        for task, inputs in member.given.active.items()
    }
    return {task: mark.paused_ms for task, mark in sorted(marks.items()) if mark.is_paused}
