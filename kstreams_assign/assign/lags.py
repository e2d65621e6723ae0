"""From offset sums to lags, and from lags to rank.

Members report offset sums (the position they have reached); assignors read lags (the distance to the end). The
translation follows Kafka's ``ClientState.computeTaskLags``, rank follows KIP-441, "Computing the most-caught-up
instances". This module does not decide where a task goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kstreams_assign.assign.java_order import sorted_tasks
from kstreams_assign.model import RUNNING_OFFSET_SUM, UNKNOWN_OFFSET_SUM, TaskId

UNBOUNDED_LAG = 2**63 - 1
"""As ``acceptable_recovery_lag``: every replica counts as caught up (Java's ``Long.MAX_VALUE``)."""

KEPT_UP_TO = 2
"""An owner goes on with a restore that takes it up to so many times as long as another process."""


def compute_lag(end_offset_sum: int, reported_sum: int | None) -> int:
    """Return the lag in offsets of a process that reported ``reported_sum``; ``None``: it did not report the task.

    -2 (running) and -3 (unknown) stay as they are. A sum greater than the end means damaged state: all has to be read
    again, so the lag is the whole end offset sum.
    """
    if reported_sum in (RUNNING_OFFSET_SUM, UNKNOWN_OFFSET_SUM):
        return reported_sum
    if reported_sum is None or reported_sum > end_offset_sum:
        return end_offset_sum
    return end_offset_sum - reported_sum


def is_caught_up(lag: int, acceptable_recovery_lag: int) -> bool:
    """Return whether a process with this lag may run the task at once (Kafka: ``HighAvailabilityTaskAssignor``).

    An unknown position (-3) is not caught up, although it sorts before every known position.
    """
    if acceptable_recovery_lag >= UNBOUNDED_LAG or lag == RUNNING_OFFSET_SUM:
        return True
    return 0 <= lag <= acceptable_recovery_lag


def rank(lag: int, acceptable_recovery_lag: int) -> int:
    """Return KIP-441's rank, lower is better: 0 up to the acceptable lag, else the lag itself.

    The KIP has no unknown position; Kafka sorts it before all others, so its rank is 0.
    """
    return 0 if lag <= acceptable_recovery_lag else lag


def offsets_to_restore(lag: int) -> int:
    """Return the number of offsets that a replica with this lag lacks.

    An unknown position counts 1: less than every replica that is known to lack more.
    """
    return max(lag, lag == UNKNOWN_OFFSET_SUM)


class TaskLags(Mapping[TaskId, int]):
    """The sparse lags of one process, with an entry for every stateful task.

    ``reported`` holds the lags of the tasks that the process reported. For all other tasks the lag is the end offset
    sum, in a mapping that all processes of a cluster share. A process with state for 100 of 20,000 tasks costs 100
    entries.
    """

    __slots__ = ("end_offset_sums", "reported")

    def __init__(self, end_offset_sums: Mapping[TaskId, int], reported_sums: Mapping[TaskId, int]) -> None:
        """Read two mappings of task -> offset sum. Reported tasks without an end offset sum are ignored."""
        self.end_offset_sums = end_offset_sums
        self.reported: dict[TaskId, int] = {}
        for task, reported_sum in reported_sums.items():
            end = end_offset_sums.get(task)
            if end is not None:
                # most are plain sums; a function call for each of a million would double the time
                self.reported[task] = end - reported_sum if 0 <= reported_sum <= end else compute_lag(end, reported_sum)

    @classmethod
    def of_lags(cls, end_offset_sums: Mapping[TaskId, int], reported_lags: Mapping[TaskId, int]) -> TaskLags:
        """Return the lags of a process that reported lags instead of sums (KIP-441's own layouts), unchanged."""
        lags = cls(end_offset_sums, {})
        lags.reported.update((task, lag) for task, lag in reported_lags.items() if task in end_offset_sums)
        return lags

    def __getitem__(self, task: TaskId) -> int:
        reported = self.reported.get(task)
        return self.end_offset_sums[task] if reported is None else reported

    def __contains__(self, task: object) -> bool:
        return task in self.end_offset_sums

    def __iter__(self) -> Iterator[TaskId]:
        return iter(self.end_offset_sums)

    def __len__(self) -> int:
        return len(self.end_offset_sums)

    def __repr__(self) -> str:
        return f"TaskLags({dict(self)!r})"


def find_previous_tasks(
    owned: Iterable[TaskId], reported_sums: Mapping[TaskId, int]
) -> tuple[frozenset[TaskId], frozenset[TaskId]]:
    """Return previous active and previous standby tasks of a process (Kafka: ``ClientState.initializePrevTasks``).

    Active: tasks whose input partitions it owned, and tasks that it reported as running. Standby: all others it
    reported.
    """
    running = {task for task, reported in reported_sums.items() if reported == RUNNING_OFFSET_SUM}
    active = frozenset(owned) | running
    return active, frozenset(reported_sums) - active


def sort_by_lag(tasks: Iterable[TaskId], lags: Mapping[TaskId, int]) -> list[TaskId]:
    """Return the tasks that have a lag, most caught up first (Kafka: ``ClientState.prevTasksByLag``)."""
    known = sorted_tasks([task for task in dict.fromkeys(tasks) if task in lags])
    return sorted(known, key=lags.__getitem__)  # equal lags stay in the order of the tasks
