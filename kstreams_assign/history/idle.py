"""Whether a silence of a task's commits was for want of input: then it is no gap of the group. Pure.

A member that is alive commits each of its tasks with progress once per commit interval, and before a task is revoked.
So where a process was alive for longer than ``COMMITTED_WITHIN_MS`` after a task's last commit, no input of that task
waited. It was alive as it joined a generation, at each commit of another task, and until shortly before the broker
removed it.

The last commit is the one with the greatest offset, not the latest timestamp: a clock may have been set back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from kstreams_assign.history.memory import Memory

COMMITTED_WITHIN_MS = 60_000
"""Twice Kafka's default ``commit.interval.ms`` of 30 s; the group's own setting is in no record."""


class Commits(Protocol):
    """The memory of a group of either protocol: who owns which task since which offset, and what was committed."""

    @property
    def owners(self) -> Mapping[str, Sequence[Any]]:
        """Task -> the process that last ran it, and the offset of the record that gave it out."""
        ...

    @property
    def commits(self) -> Mapping[str, Sequence[int]]:
        """Input partition -> time and offset of its last commit."""
        ...

    def inputs_of(self, task: str) -> Sequence[str]:
        """Return the input partitions of a task, as far as they are known."""
        ...


def idle_before(memory: Memory, process: str, last_commit_ms: int, joined_ms: int | None) -> bool:
    """Whether the old owner was alive without input of the task before the generation that gave it out.

    ``joined_ms``: when it joined that generation, None if it had left.
    """
    alive_ms = last_commit_of(memory, process)
    if joined_ms is not None:
        alive_ms = max(alive_ms, joined_ms)
    elif process in memory.alive_ms:
        alive_ms = max(alive_ms, memory.alive_ms[process])
    return alive_ms - last_commit_ms > COMMITTED_WITHIN_MS


def idle_after(memory: Commits, process: str, assigned_ms: int, assigned_offset: int) -> bool:
    """Whether the new owner, with nothing to restore, has been alive without input of the task.

    The task has no commit behind ``assigned_offset`` yet, the offset of the generation that assigned the task.
    """
    return last_commit_of(memory, process, assigned_offset) - assigned_ms > COMMITTED_WITHIN_MS


def gap_between(last_commit_ms: int, first_commit_ms: int) -> int | None:
    """How long a task was silent; None where a clock that was set back makes the later commit the earlier one."""
    gap_ms = first_commit_ms - last_commit_ms
    return gap_ms if gap_ms >= 0 else None


def find_last_commit_ms(memory: Commits, partitions: Iterable[str], since_offset: int) -> int | None:
    """When the last of these input partitions was committed behind ``since_offset``; None if none was."""
    last = max(_commits_behind(memory, partitions, since_offset), default=None)
    return None if last is None else last[1]


def last_commit_of(memory: Commits, process: str, after_offset: int = -1) -> int:
    """When the process last committed any task that it owns, behind ``after_offset``; 0 if it did not."""
    commits = [
        commit
        for task, (owner, since_offset) in memory.owners.items()
        if owner == process
        for commit in _commits_behind(memory, memory.inputs_of(task), max(since_offset, after_offset))
    ]
    return max(commits, default=(-1, 0))[1]


def _commits_behind(memory: Commits, partitions: Iterable[str], offset: int) -> Iterator[tuple[int, int]]:
    """Yield offset and timestamp of the last commit of each partition that has one behind ``offset``."""
    for partition in partitions:
        time_ms, commit_offset = memory.commits.get(partition, (0, -1))
        if commit_offset > offset:
            yield commit_offset, time_ms
