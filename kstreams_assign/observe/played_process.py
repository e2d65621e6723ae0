"""One process of a simulated group: its members' tasks, and its disk.

What lives here: how state is created, read on, left behind and cleaned up. What must not: rebalances (``played``).
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
    """Starts from ``state``. ``ends``: stateful task -> sum of its changelogs' end offsets, which do not change."""

    def __init__(self, state: ProcessState, ends: Sums) -> None:
        self.about: MemberReport = state.about
        self.consumers = {consumer.member_id: consumer for consumer in state.consumers}
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
        """Return 0 for a position that is unknown or beyond the end: that state is read again from the start."""
        position = self._positions.get(task, 0)
        return position if 0 <= position <= self._ends[task] else 0

    # --- a rebalance -----------------------------------------------------------------

    def reports(self) -> dict[str, dict[TaskId, int]]:
        """Return member -> the offset sums that it joins with. The first member reports the state of revoked tasks."""
        first = next(iter(self.consumers), None)
        idle = self._positions.keys() - self.active - self.copies
        return {
            name: self._sums(consumer, idle if name == first else frozenset())
            for name, consumer in self.consumers.items()
        }

    def _sums(self, consumer: ConsumerState, idle: Iterable[TaskId]) -> dict[TaskId, int]:
        reported = sorted(((consumer.active | consumer.copies) & self._positions.keys()).union(idle))
        running = consumer.active
        return {
            task: RUNNING_OFFSET_SUM if task in running and not self.lag(task) else self._positions[task]
            for task in reported
        }

    def adopt(self, taken: Iterable[ConsumerState], now_ms: int, queue: WarmupQueue | None = None) -> None:
        """Give every member its assignment."""
        self._queue = queue
        self.consumers = {consumer.member_id: consumer for consumer in taken}
        self._recount()
        self.settle(now_ms)

    def _recount(self) -> None:
        self.active = frozenset[TaskId]().union(*(consumer.active for consumer in self.consumers.values()))
        self.copies = frozenset[TaskId]().union(*(consumer.copies for consumer in self.consumers.values()))

    def settle(self, now_ms: int) -> None:
        """Open the stores of new tasks; leave those of revoked tasks on the disk."""
        held = (self.active | self.copies) & self._ends.keys()
        for task in held:
            self._positions.setdefault(task, 0)
            self._left_ms.pop(task, None)
        for task in self._positions.keys() - held:
            self._left_ms.setdefault(task, now_ms)

    def clean_up(self, now_ms: int, delay_ms: int) -> None:
        """Delete state that was left longer ago than ``delay_ms``."""
        for task in [task for task, left_ms in self._left_ms.items() if now_ms - left_ms > delay_ms]:
            del self._left_ms[task], self._positions[task]

    # --- reading ---------------------------------------------------------------------

    def reading(self, acceptable: int) -> list[TaskId]:
        """Return what is read now: active tasks that do not run yet, otherwise replicas that are not queued."""
        for held in (self.active, self.copies - self._queued(acceptable)):
            if behind := sorted(task for task in held & self._ends.keys() if self.lag(task)):
                return behind
        return []

    def _queued(self, acceptable: int) -> frozenset[TaskId]:
        """Warm-ups that wait for others (``restore.loop`` has the same rule)."""
        if self._queue is None:
            return frozenset()
        under_way = [task for task in self._queue.order if not is_caught_up(self.lag(task), acceptable)]
        return frozenset(under_way[self._queue.at_once :])

    def until_next_ms(self, offsets_per_s: int, acceptable: int) -> int | None:
        """Return the time until a task gets within ``acceptable``, or to its end; None if nothing is read."""
        reading = self.reading(acceptable)
        goals = [lag - acceptable if lag > acceptable else lag for lag in map(self.lag, reading)]
        return min((-(-goal * len(reading) * 1000 // offsets_per_s) for goal in goals), default=None)

    def read_for(self, ms: int, offsets_per_s: int, acceptable: int) -> int:
        """Read every task at the same speed; return the number of offsets. ``ms`` is at most ``until_next_ms``."""
        reading = self.reading(acceptable)
        share = offsets_per_s * ms // (1000 * len(reading)) if reading else 0
        return sum(self._read(task, share) for task in reading)

    def read_all(self) -> int:
        """Read everything to its end; return the number of offsets."""
        held = sorted((self.active | self.copies) & self._ends.keys())
        return sum(self._read(task, self.lag(task)) for task in held)

    def _read(self, task: TaskId, offsets: int) -> int:
        read = min(offsets, self.lag(task))
        self._positions[task] = self._read_to(task) + read
        return read

    def published(self) -> dict[TaskId, int]:
        """Return the replicas' positions, as our members publish them while a probe is due."""
        return {task: self._read_to(task) for task in sorted(self.copies & self._ends.keys())}
