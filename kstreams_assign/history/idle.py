"""Whether a silence of a task's commits was for want of input: then it is no gap of the group. Pure.

A member that is alive commits each of its tasks with progress once per commit interval, and before a task is revoked.
So where a process was alive for longer than ``COMMITTED_WITHIN_MS`` after a task's last commit, no input of that task
waited. It was alive as it joined a generation, at each commit of another task, and until shortly before the broker
removed it.
"""

from __future__ import annotations

from kstreams_assign.history.memory import Memory

COMMITTED_WITHIN_MS = 60_000
"""Twice Kafka's default ``commit.interval.ms`` of 30 s; the group's own setting is in no record."""


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


def idle_after(memory: Memory, process: str, assigned_ms: int, first_commit_ms: int) -> bool:
    """Whether the new owner, with nothing to restore, was alive without input of the task before its first commit."""
    alive_ms = min(last_commit_of(memory, process), first_commit_ms)
    return alive_ms - assigned_ms > COMMITTED_WITHIN_MS


def gap_between(last_commit_ms: int, first_commit_ms: int) -> int | None:
    """How long a task was silent; None where a clock that was set back makes the later commit the earlier one."""
    gap_ms = first_commit_ms - last_commit_ms
    return gap_ms if gap_ms >= 0 else None


def last_commit_of(memory: Memory, process: str) -> int:
    """When the process last committed any task that it owns; 0 if it did not."""
    times = [0]
    for task, (owner, since_offset) in memory.owners.items():
        if owner == process:
            commits = [
                memory.commits[partition] for partition in memory.inputs.get(task, ()) if partition in memory.commits
            ]
            times += [time_ms for time_ms, offset in commits if offset > since_offset]
    return max(times)
