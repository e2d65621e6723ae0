"""Whether the coordinator takes a process for a member: checkers ask it, and not the parts that they judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstreams_assign.model import TaskId

if TYPE_CHECKING:
    from kstreams_assign.sim.process import Process
    from kstreams_assign.sim.world import World


def may_commit(world: World, process: Process, task: TaskId) -> bool:
    """Return whether the coordinator would take a commit of the task from a process now."""
    client = process.membership.client
    return world.group.may_commit(client.member_id, client.generation, task)


def is_of_this_generation(world: World, process: Process) -> bool:
    """Return whether a process is a member in the present generation of a classic group."""
    client = process.membership.client
    return world.coordinator.is_present(client.member_id, client.generation)
