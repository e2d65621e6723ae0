"""When the next rebalance of a simulated group comes: at once, at the probing interval, or early.

Early probing is the real ``group.probing``: our members publish the positions of their replicas, our leader asks. What
lives here: passing time until then. What must not: what a rebalance does (``played``).
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from kstreams_assign.group.probing import GainReported, GenerationStarted, Prober, Rejoin, Sums, compute_gain
from kstreams_assign.group.values import Decision, LeaderState
from kstreams_assign.observe.played import PlayedGroup

FOLLOW_UP, PROBE = "follow_up", "probe"


def until_next(group: PlayedGroup, last: Decision, offsets_per_s: int | None) -> str | None:
    """Let time pass until the rebalance after ``last``, and return its cause; None if none comes.

    Without ``offsets_per_s`` every replica gets to its end meanwhile, and the time is the least possible.
    """
    if last.withheld:
        return FOLLOW_UP
    if last.next_probe_ms is None or last.standing is None:
        return None
    until_probe(group, last.standing, last.next_probe_ms, offsets_per_s)
    return PROBE


def until_probe(group: PlayedGroup, standing: LeaderState, due_ms: int, offsets_per_s: int | None) -> None:
    """Read on until ``due_ms``, or until the leader asks early."""
    if offsets_per_s is None:
        group.read_all()
        floor_ms = _early_floor_ms(group)
        early = floor_ms is not None and _gain_changes(group, standing)
        group.now_ms = min(due_ms, group.now_ms + (floor_ms or 0)) if early else due_ms
        return
    prober = _prober(group)
    wake_ms = due_ms
    while group.now_ms < due_ms:
        until_next_ms = group.until_next_ms(offsets_per_s)
        step_ms = min(wake_ms, due_ms) - group.now_ms
        group.read_for(step_ms if until_next_ms is None else min(step_ms, until_next_ms), offsets_per_s)
        wake_ms = due_ms
        if prober is not None:
            gain = compute_gain(standing, _published(group), group.state.ends)
            answer = prober.handle(GainReported(gain), group.now_ms)
            if isinstance(answer, Rejoin):
                return
            wake_ms = due_ms if answer.until_ms is None else answer.until_ms


def until_read(group: PlayedGroup, offsets_per_s: int | None) -> None:
    """Read everything to its end; without ``offsets_per_s`` this takes no time."""
    if offsets_per_s is None:
        group.read_all()
        return
    while (step_ms := group.until_next_ms(offsets_per_s)) is not None:
        group.read_for(step_ms, offsets_per_s)


def _early_floor_ms(group: PlayedGroup) -> int | None:
    state = group.state
    early = state.early_probing and group.processes[state.leader].ours
    return state.early_probing_floor_ms if early else None


def _prober(group: PlayedGroup) -> Prober | None:
    floor_ms = _early_floor_ms(group)
    if floor_ms is None:
        return None
    prober = Prober(floor_ms)
    prober.handle(GenerationStarted(), group.now_ms)
    return prober


def _gain_changes(group: PlayedGroup, standing: LeaderState) -> bool:
    return compute_gain(standing, _published(group), group.state.ends).changes > 0


def _published(group: PlayedGroup) -> Mapping[UUID, Sums]:
    return {name: process.published() for name, process in group.processes.items() if process.ours}
