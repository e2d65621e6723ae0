"""What a process would get if it joined a streams group (KIP-1071) now, by the brokers' own assignor.

Pure. What must not live here: whether it waits until that is warm (``engine.warm_join``).
"""

from __future__ import annotations

from collections.abc import Mapping

from kstreams_assign.assign.streams_group import predict_process
from kstreams_assign.group.streams_outlook import Outlook
from kstreams_assign.model import TaskId
from kstreams_assign.observe.streams_snapshot import StreamsSnapshot
from kstreams_assign.observe.streams_state import playable

NO_MEMBERS = "the group has no members"
KNOWN = "the group still has this member"
NO_OWNER = "the group has tasks without an owner"


def outlook(snapshot: StreamsSnapshot | None, process_id: str, member_id: str) -> tuple[Outlook, Mapping[TaskId, int]]:
    """Return what this process would get with one member of this id, and how much each task's changelogs hold.

    ``snapshot``: None where there is no group. Raises ``NotAStreamsGroup``, ``ConfigError``.
    """
    if snapshot is None or not snapshot.members:
        return Outlook(at_once=NO_MEMBERS), {}
    if any(member.described.member_id == member_id for member in snapshot.members):
        return Outlook(at_once=KNOWN), {}
    if set(snapshot.tasks) - {task for member in snapshot.members for task in member.target.active}:
        return Outlook(at_once=NO_OWNER), {}
    state = playable(snapshot).state
    group = state.group
    prediction = predict_process(group, process_id, [member_id])
    stateful = {number for number, sub in group.subtopologies.items() if sub.is_stateful}
    expected = Outlook(
        prediction.active,
        frozenset(task for task in prediction.active if task.subtopology in stateful),
        prediction.standby,
    )
    return expected, state.restore_offsets
