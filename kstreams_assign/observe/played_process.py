"""One process of a played group: what its members have, and its disk.

What lives here: how state comes, is read on, is left behind and cleaned away. What must not: rebalances (``played``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from kstreams_assign.assign import is_caught_up
from kstreams_assign.group.dialects import MemberReport
from kstreams_assign.group.values import WarmupQueue
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId
from kstreams_assign.observe.group_state import ConsumerState, ProcessState

Sums = Mapping[TaskId, int]


class PlayedProcess:
    """Begins as ``state`` says. ``ends``: stateful task -> the end of its changelogs, which does not move."""

    def __init__(self, state: ProcessState, ends: Sums) -> None:
        self.about: MemberReport = state.about
        self.consumers = {one.member_id: one for one in state.consumers}
        self._ends = ends
        self._positions = dict(state.positions)
        self._left_ms: dict[TaskId, int] = {}
        self._queue: WarmupQueue | None = None
        self._recount()
        self.settle(0)

    @property
    def process_id(self) -> UUID:
        return self.about.process_id

    @property
    def ours(self) -> bool:
        return self.about.trailer is not None

    def lag(self, task: TaskId) -> int:
        """Offsets that this process still has to read of a stateful task."""
        return self._ends[task] - self._read_to(task)

    def _read_to(self, task: TaskId) -> int:
        """A position that is not known, or behind the end, is of no use: that state is read again from the start."""
        position = self._positions.get(task, 0)
        return position if 0 <= position <= self._ends[task] else 0

    # --- a rebalance -----------------------------------------------------------------

    def reports(self) -> dict[str, dict[TaskId, int]]:
        """Member -> the offset sums that it joins with. State that tasks left behind is told by the first member."""
        first = next(iter(self.consumers), None)
        idle = self._positions.keys() - self.active - self.copies
        return {name: self._sums(one, idle if name == first else frozenset()) for name, one in self.consumers.items()}

    def _sums(self, one: ConsumerState, idle: Iterable[TaskId]) -> dict[TaskId, int]:
        told = sorted(((one.active | one.copies) & self._positions.keys()).union(idle))
        running = one.active
        return {
            task: RUNNING_OFFSET_SUM if task in running and not self.lag(task) else self._positions[task]
            for task in told
        }

    def adopt(self, taken: Iterable[ConsumerState], now_ms: int, queue: WarmupQueue | None = None) -> None:
        """Every member has its assignment."""
        self._queue = queue
        self.consumers = {one.member_id: one for one in taken}
        self._recount()
        self.settle(now_ms)

    def _recount(self) -> None:
        self.active = frozenset[TaskId]().union(*(one.active for one in self.consumers.values()))
        self.copies = frozenset[TaskId]().union(*(one.copies for one in self.consumers.values()))

    def settle(self, now_ms: int) -> None:
        """Stores of new tasks are opened, those of tasks that are here no more are left on the disk."""
        held = (self.active | self.copies) & self._ends.keys()
        for task in held:
            self._positions.setdefault(task, 0)
            self._left_ms.pop(task, None)
        for task in self._positions.keys() - held:
            self._left_ms.setdefault(task, now_ms)

    def clean_up(self, now_ms: int, delay_ms: int) -> None:
        """What was left longer ago than ``delay_ms`` is gone."""
        for task in [task for task, left_ms in self._left_ms.items() if now_ms - left_ms > delay_ms]:
            del self._left_ms[task], self._positions[task]

    # --- reading ---------------------------------------------------------------------

    def reading(self, acceptable: int) -> list[TaskId]:
        """What is being read: active tasks that do not run yet, and only then copies whose turn has come."""
        for here in (self.active, self.copies - self._queued(acceptable)):
            if behind := sorted(task for task in here & self._ends.keys() if self.lag(task)):
                return behind
        return []

    def _queued(self, acceptable: int) -> frozenset[TaskId]:
        """Warm-ups that wait for others (``restore.loop`` has the same rule)."""
        if self._queue is None:
            return frozenset()
        under_way = [task for task in self._queue.order if not is_caught_up(self.lag(task), acceptable)]
        return frozenset(under_way[self._queue.at_once :])

    def until_next_ms(self, offsets_per_s: int, acceptable: int) -> int | None:
        """How long until the next copy or task gets within ``acceptable``, or to its end; None if nothing is read."""
        reading = self.reading(acceptable)
        goals = [lag - acceptable if lag > acceptable else lag for lag in map(self.lag, reading)]
        return min((-(-goal * len(reading) * 1000 // offsets_per_s) for goal in goals), default=None)

    def read_for(self, ms: int, offsets_per_s: int, acceptable: int) -> int:
        """Read on, every task at the same speed, and answer with the number of offsets. No longer than ``until_next_ms``."""
        reading = self.reading(acceptable)
        share = offsets_per_s * ms // (1000 * len(reading)) if reading else 0
        return sum(self._read(task, share) for task in reading)

    def read_all(self) -> int:
        """Read everything to its end, and answer with the number of offsets."""
        held = sorted((self.active | self.copies) & self._ends.keys())
        return sum(self._read(task, self.lag(task)) for task in held)

    def _read(self, task: TaskId, offsets: int) -> int:
        read = min(offsets, self.lag(task))
        self._positions[task] = self._read_to(task) + read
        return read

    def published(self) -> dict[TaskId, int]:
        """How far the copies are, as a member of ours publishes it while a probe is due."""
        return {task: self._read_to(task) for task in sorted(self.copies & self._ends.keys())}
