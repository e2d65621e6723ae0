"""What a process would get if it joined a streams group (KIP-1071) now, by the brokers' own assignor.

It may join alone, or together with others: then the first of them is assigned at its join, and the others together, as
the brokers assign once in their assignment interval (``assign.streams_group``). Pure. What must not live here: whether
it waits until that is warm (``engine.warm_join``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kstreams_assign.assign import StreamsMember
from kstreams_assign.assign.streams_group import predict_joiners
from kstreams_assign.group.streams_outlook import Newcomer, Outlook
from kstreams_assign.model import TaskId
from kstreams_assign.observe.streams_snapshot import StreamsSnapshot
from kstreams_assign.observe.streams_state import playable

NO_MEMBERS = "the group has no members"
KNOWN = "the group still has this member"
NO_OWNER = "the group has tasks without an owner"


class NotAssigned(Exception):
    """Tasks have lost their owner, and the brokers give them to others at a heartbeat soon."""

    def __init__(self) -> None:
        super().__init__("the brokers are about to assign tasks that have no owner")


def outlook(
    snapshot: StreamsSnapshot | None,
    newcomer: Newcomer,
    joining: Sequence[Newcomer] = (),
    *,
    is_interval_open: bool = False,
) -> tuple[Outlook, Mapping[TaskId, int]]:
    """Return what this process would get, and how much each task's changelogs hold.

    ``snapshot``: None where there is no group. ``joining``: the processes that join in quick succession, in this order
    and this one among them, as far as the group does not have them yet; it is alone if there are none.
    ``is_interval_open``: another has just joined. Raises ``NotAssigned``: ask again; ``NotAStreamsGroup``,
    ``ConfigError``.
    """
    if snapshot is None or not snapshot.members:
        return Outlook(at_once=NO_MEMBERS), {}
    known = {member.described.member_id for member in snapshot.members}
    if newcomer.member_id in known:
        return Outlook(at_once=KNOWN), {}
    owned = {task for member in snapshot.members for task in member.target.active}
    if set(snapshot.tasks) - owned:
        if owned and snapshot.group.assignment_epoch < snapshot.group.group_epoch:
            raise NotAssigned
        return Outlook(at_once=NO_OWNER), {}
    state = playable(snapshot).state
    group = state.group
    order = [each for each in joining if each.member_id not in known] or [newcomer]
    members = [StreamsMember(each.member_id, each.process_id) for each in order]
    targets = predict_joiners(group, members, is_interval_open=is_interval_open)
    given = targets[-1][newcomer.member_id]
    stateful = {number for number, sub in group.subtopologies.items() if sub.is_stateful}

    def with_state(tasks: Iterable[TaskId]) -> frozenset[TaskId]:
        return frozenset(task for task in tasks if task.subtopology in stateful)

    before = [target[newcomer.member_id].active for target in targets[:-1] if newcomer.member_id in target]
    passing = with_state(frozenset().union(*before) - given.active)
    return Outlook(given.active, with_state(given.active), given.standby, passing), state.restore_offsets
