"""Whether a streams group is at rest: its coordinator and its members agree, and every task runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kstreams_assign.engine.streams_membership import State
from kstreams_assign.sim.streams_membership import StreamsMembership
from kstreams_assign.tasks.lifecycle import TaskState

if TYPE_CHECKING:
    from kstreams_assign.sim.process import Process
    from kstreams_assign.sim.world import World


def unsettled_streams(world: World) -> Iterator[str]:
    """Yield why the running processes still expect another assignment or the end of a restore."""
    if not world.streams.is_stable:
        yield "the group has no stable target"
    if strangers := world.streams.seats.keys() - {process.membership.client.member_id for process in world.processes}:
        yield f"{min(strangers)} is a member, and no process"
    for process in world.processes:
        yield from (f"{process.run.name}: {why}" for why in _unsettled(world, process))


def _unsettled(world: World, process: Process) -> Iterator[str]:
    member = process.membership
    assert isinstance(member, StreamsMembership)
    if member.machine.state is not State.MEMBER:
        yield f"is {member.machine.state.value}"
        return
    seat = world.streams.seats.get(member.client.member_id)
    if seat is None or seat.epoch != member.machine.epoch:
        yield f"is in epoch {member.machine.epoch}, not {seat and seat.epoch}"
    elif not member.machine.owned == member.machine.assigned == seat.assigned:
        yield "does not own what it is assigned"
    for task in sorted(member.machine.owned.active):
        if (state := process.loop.tasks.state(task)) is not TaskState.RUNNING:
            yield f"{task} is {state.value}"
