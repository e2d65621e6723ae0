"""A process between its start and its end: membership, loop, cleaner, on a disk that outlives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstreams_assign.engine.membership import RESTART_ANNOUNCED_WITHIN_MS, DrainAsked, RestartAsked
from kstreams_assign.group import member as machine
from kstreams_assign.model import HostInfo, TaskId
from kstreams_assign.sim.disk import Disk
from kstreams_assign.sim.incarnation import Incarnation
from kstreams_assign.sim.java import JAVA, PYTHON
from kstreams_assign.sim.member import Member
from kstreams_assign.sim.streams_membership import StreamsMembership

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from kstreams_assign.sim.world import World

CLEANER_INTERVAL_MS = 10_000
FIRST_PORT = 8_000


class Process:
    """``slot`` is its place in the group, which the next process on the same disk takes over.

    ``start_number`` counts the starts of all processes.
    """

    def __init__(self, world: World, slot: int, disk: Disk, start_number: int = 0) -> None:
        self.world = world
        self.slot = slot
        self.disk = disk
        self.kind = JAVA if slot in world.scenario.java else PYTHON
        self.run = Incarnation(f"{self.kind.letter}{slot}", world.timeline)
        self.instance_id = f"instance-{slot}" if world.scenario.static else None
        port = FIRST_PORT + (start_number if self.kind.moves else 0)
        self.endpoint = HostInfo(f"host-{slot}", port) if world.scenario.java else None
        disk.restarted(world.timeline.now_ms)
        self._ended: Callable[[], None] = lambda: None
        self._leaves = False
        self.membership: Member = self._member()
        self.loop = world.policy.loop(self)
        for task, offsets in disk.folders.items():
            self.membership.sums.dormant(task, offsets)

    def _member(self) -> Member:
        if self.world.scenario.is_streams_group:
            return StreamsMembership(self)
        return self.world.policy.membership(self)

    @property
    def process_id(self) -> UUID:
        return self.disk.process_id

    def start(self) -> None:
        self.run.later(CLEANER_INTERVAL_MS, self._clean)
        self.membership.start()

    def leave(self, *, failed: bool = False) -> None:
        """Commit unless it ``failed``, close everything, leave the group."""
        if self._leaves:
            return
        self._leaves = True
        self.membership.handle(machine.CloseAsked())
        self.loop.stop(self._left, failed=failed)

    def drain(self, ended: Callable[[], None]) -> None:
        """Leave once its tasks are warm elsewhere, or cannot be; then call. A process that cannot drain closes."""
        self._ended = ended
        if self.kind.drains:
            self.membership.handle(DrainAsked())
        else:
            self.leave()

    def restart(self, ended: Callable[[], None]) -> None:
        """Announce that it is back soon, leave, and call. A process of the other kind, or a static one, only closes."""
        self._ended = ended
        if self.kind.announces_restarts and self.world.policy.awaits_restarts and self.instance_id is None:
            self.run.later(RESTART_ANNOUNCED_WITHIN_MS, self.leave)
            self.membership.handle(RestartAsked())
        else:
            self.leave()

    def _left(self) -> None:
        if self.kind.leaves:
            self.membership.leave()
        self.end()
        self._ended()

    def end(self) -> None:
        """Nothing of it happens any more."""
        self.run.die()
        self.world.ended(self)

    # --- the cleaner, as in state.cleaner ------------------------------------------------------

    def _clean(self) -> None:
        self.run.later(CLEANER_INTERVAL_MS, self._clean)
        if self.membership.mutex.try_clean():
            delay_ms = self.world.scenario.state_cleanup_delay_ms
            idle = self.disk.idle(self.world.timeline.now_ms, delay_ms)
            self.run.later(self.world.cleaner_takes_ms(), self._cleaned, idle)

    def _cleaned(self, idle: list[TaskId]) -> None:
        for task in idle:
            if task in self.disk.folders and task not in self.disk.locked:
                self.disk.discard(task)
                self.membership.sums.forget(task)
                self.world.watch.cleaned(self, task)
                self.world.log("cleaned", self, task)
        self.membership.mutex.end_clean()
        self.membership.turn_soon()
