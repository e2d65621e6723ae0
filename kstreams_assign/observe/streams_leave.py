"""Who gets the tasks of members that leave a streams group (KIP-1071) now, by the brokers' own assignor.

Pure. What must not live here: whether they wait until these tasks are warm there (``engine.warm_leave``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kstreams_assign.assign.streams_group import predict_leave
from kstreams_assign.group.streams_outlook import LeaveOutlook
from kstreams_assign.model import TaskId
from kstreams_assign.observe.streams_snapshot import StreamsSnapshot
from kstreams_assign.observe.streams_state import playable

NOT_THERE = "the group does not have this member"
ALONE = "no other member stays in the group"


def leave_outlook(
    snapshot: StreamsSnapshot | None, member_id: str, others: Collection[str] = ()
) -> tuple[LeaveOutlook, Mapping[TaskId, int]]:
    """Return what the staying members get if this member leaves, and how much each task's changelogs hold.

    ``others``: members that leave, too. Raises ``NotAStreamsGroup``, ``ConfigError``.
    """
    known = {member.described.member_id for member in snapshot.members} if snapshot is not None else set()
    if snapshot is None or member_id not in known:
        return LeaveOutlook(at_once=NOT_THERE), {}
    leaving = {member_id, *known.intersection(others)}
    if leaving == known:
        return LeaveOutlook(at_once=ALONE), {}
    state = playable(snapshot).state
    group = state.group
    stateful = {number for number, sub in group.subtopologies.items() if sub.is_stateful}
    gains: dict[str, frozenset[TaskId]] = {}
    away: dict[str, str] = {}
    instances = {
        each.described.member_id: each.described.instance_id or each.described.member_id
        for each in snapshot.members
        if each.is_away
    }
    for name, tasks in predict_leave(group, leaving).likely.items():
        came = tasks.active - group.target[name].active
        if came and name in instances:
            away[name] = instances[name]
        if held := frozenset(task for task in came if task.subtopology in stateful):
            gains[name] = held
    return LeaveOutlook(gains, away), state.restore_offsets
