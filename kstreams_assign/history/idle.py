"""Whether a silence of a task's commits was for want of input: then it is no gap of the group. Pure.

A member that is alive commits each of its tasks with progress once per commit interval, and before a task is revoked.
So where a process was alive for longer than ``COMMITTED_WITHIN_MS`` after a task's last commit, no input of that task
waited. It was alive as it joined a generation, at each commit of another task, and until shortly before the broker
removed it.
"""

from __future__ import annotations

from kstreams_assign.history.memory import Memory
from kstreams_assign.history.seen import Generation

COMMITTED_WITHIN_MS = 60_000
"""Twice Kafka's default ``commit.interval.ms`` of 30 s; the group's own setting is in no record."""


def idle_before(memory: Memory, process: str, last_commit_ms: int, seen: Generation) -> bool:
    """Whether the old owner was alive without input of the task before the generation that gave it out."""
    alive_ms = last_commit_of(memory, process)
    if process in seen.processes:
        alive_ms = max(alive_ms, seen.place.time_ms)
    elif process in memory.removal_ms:
        alive_ms = max(alive_ms, seen.place.time_ms - memory.removal_ms[process])
    return alive_ms - last_commit_ms > COMMITTED_WITHIN_MS


def idle_after(memory: Memory, process: str, assigned_ms: int, first_commit_ms: int) -> bool:
    """Whether the new owner, with nothing to restore, was alive without input of the task before its first commit."""
    alive_ms = min(last_commit_of(memory, process), first_commit_ms)
    return alive_ms - assigned_ms > COMMITTED_WITHIN_MS


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
