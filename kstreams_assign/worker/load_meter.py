"""The loads of running tasks, as ``balance_by`` asks for them: the rate of their input, or their state on disk.

The rate is that at which records arrive, by the ends of the input partitions, and not that at which they are processed:
an overloaded process would seem to have no more load than it can bear. It is measured over minutes. What must not live
here: what follows from a load (``group.loads``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.allowed_values import BalanceBy
from kstreams_assign.assign import Loads
from kstreams_assign.model import TaskId, TopicPartition, TopologyShape
from kstreams_assign.worker.input_progress import InputProgress

SAMPLE_EVERY_MS = 5_000
WINDOW_MS = 300_000
"""A rate is that of the last five minutes."""
MEASURED_AFTER_MS = 60_000
"""A task has no rate before."""
MINUTE_MS = 60_000

Progress = Mapping[TopicPartition, InputProgress]


class InputRates:
    """Records that arrive in a minute, by task. Times are milliseconds of one clock."""

    def __init__(self) -> None:
        self._samples: dict[TopicPartition, deque[tuple[int, int]]] = {}

    def add(self, progress: Progress, now_ms: int) -> None:
        """Note the ends of the inputs of all running tasks. A partition that is missing is forgotten."""
        self._samples = {partition: self._samples.get(partition, deque()) for partition in progress}
        for partition, samples in self._samples.items():
            end = progress[partition].end
            if samples and end < samples[-1][1]:  # the topic was created again
                samples.clear()
            samples.append((now_ms, end))
            while len(samples) > 2 and samples[1][0] <= now_ms - WINDOW_MS:
                samples.popleft()

    def by_task(self, progress: Progress) -> dict[TaskId, int]:
        """Return the rate of each task whose partitions have all been measured for long enough."""
        rates: dict[TaskId, float] = {}
        unknown = set()
        for partition, at in progress.items():
            rate = self._rate(partition)
            if rate is None:
                unknown.add(at.task)
            else:
                rates[at.task] = rates.get(at.task, 0.0) + rate
        return {task: round(rate) for task, rate in rates.items() if task not in unknown}

    def _rate(self, partition: TopicPartition) -> float | None:
        samples = self._samples.get(partition)
        if not samples:
            return None
        (began_ms, first), (ended_ms, last) = samples[0], samples[-1]
        if ended_ms - began_ms < MEASURED_AFTER_MS:
            return None
        return (last - first) * MINUTE_MS / (ended_ms - began_ms)


def measure_sizes(progress: Progress, bytes_by_task: Mapping[TaskId, int], shape: TopologyShape) -> dict[TaskId, int]:
    """Return the bytes on disk of each running task; a task is missing if it has stores there that are not measured."""
    running = {at.task for at in progress.values()}
    on_disk = {task for task in running if shape.subtopologies[task.subtopology].on_disk}
    return {task: bytes_by_task.get(task, 0) for task in running if task in bytes_by_task or task not in on_disk}


class LoadMeter:
    """``turn`` is called by one thread; ``loads`` may be read by any: it is replaced, never changed."""

    def __init__(
        self,
        balance_by: str,
        shape: TopologyShape,
        progress: Callable[[], Progress],
        bytes_by_task: Callable[[], Mapping[TaskId, int]],
    ) -> None:
        self._balance_by = balance_by
        self._shape = shape
        self._progress = progress
        self._bytes_by_task = bytes_by_task
        self._rates = InputRates()
        self._next_ms = 0
        self.loads: Loads = {}

    def turn(self) -> None:
        """Measure if it is time to; nothing where tasks are balanced by number."""
        now_ms = monotonic_ms()
        if self._balance_by == BalanceBy.TASKS or now_ms < self._next_ms:
            return
        self._next_ms = now_ms + SAMPLE_EVERY_MS
        progress = self._progress()
        if self._balance_by == BalanceBy.STATE_SIZE:
            self.loads = measure_sizes(progress, self._bytes_by_task(), self._shape)
            return
        self._rates.add(progress, now_ms)
        self.loads = self._rates.by_task(progress)
