"""Whether a silence of a task's commits was for want of input: then it is no gap of the group. Pure.

A member that is alive commits each of its tasks with progress once per commit interval, and before a task is revoked.
So where a process was alive for longer than ``COMMITTED_WITHIN_MS`` after a task's last commit, no input of that task
waited. It was alive as it joined a generation, at each commit of another task, and until shortly before the broker
removed it.

The last commit is the one with the greatest offset, not the latest timestamp: a clock may have been set back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kstreams_assign.history.memory import Memory

COMMITTED_WITHIN_MS = 60_000
"""Twice Kafka's default ``commit.interval.ms`` of 30 s; the group's own setting is in no record."""


def idle_before(memory: Memory, process: str, last_commit_ms: int, joined_ms: int | None) -> bool:
    """Whether the old owner was alive without input of the task before the generation that gave it out.

    ``joined_ms``: when it joined that generation, None if it had left.
    """
    alive_ms = _last_commit_of(memory, process)
    if joined_ms is not None:
        alive_ms = max(alive_ms, joined_ms)
    elif process in memory.alive_ms:
        alive_ms = max(alive_ms, memory.alive_ms[process])
    return alive_ms - last_commit_ms > COMMITTED_WITHIN_MS


def idle_after(memory: Memory, process: str, assigned_ms: int, assigned_offset: int) -> bool:
    """Whether the new owner, with nothing to restore, has been alive without input of the task.

    The task has no commit behind ``assigned_offset`` yet, the offset of the generation that assigned the task.
    """
    return _last_commit_of(memory, process, assigned_offset) - assigned_ms > COMMITTED_WITHIN_MS


def gap_between(last_commit_ms: int, first_commit_ms: int) -> int | None:
    """How long a task was silent; None where a clock that was set back makes the later commit the earlier one."""
    gap_ms = first_commit_ms - last_commit_ms
    return gap_ms if gap_ms >= 0 else None


def commits_behind(
    offset: int, commits: Mapping[str, Sequence[int]], partitions: Iterable[str]
) -> list[tuple[int, int]]:
    """Return offset and timestamp of the last commit of each partition that has one behind ``offset``.

    ``commits``: input partition -> time and offset of its last commit.
    """
    listed = (commits[partition] for partition in partitions if partition in commits)
    return [(commit_offset, time_ms) for time_ms, commit_offset in listed if commit_offset > offset]


def find_last_commit_ms(commits: Iterable[tuple[int, int]]) -> int | None:
    """Return the timestamp of the commit with the greatest offset; None without commits."""
    last = max(commits, default=None)
    return None if last is None else last[1]


def _last_commit_of(memory: Memory, process: str, after_offset: int = -1) -> int:
    """When the process last committed any task that it owns, behind ``after_offset``; 0 if it did not."""
    commits: list[tuple[int, int]] = []
    for task, (owner, since_offset) in memory.owners.items():
        if owner == process:
            behind = max(since_offset, after_offset)
            commits += commits_behind(behind, memory.commits, memory.inputs.get(task, ()))
    return find_last_commit_ms(commits) or 0
