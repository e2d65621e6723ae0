"""What members of a streams group (KIP-1071) write to each other before one of them leaves: msgpack maps.

A member that drains announces which tasks its leaving gives to whom. The members of this package restore those and
answer. Unknown keys are ignored, so that later releases may add some. What must not live here: the topic, and when
anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from kstreams_assign.errors import InvalidTaskId, MalformedUserData
from kstreams_assign.frozen import dataclass
from kstreams_assign.model import TaskId, task_names
from kstreams_assign.wire.framing import pack
from kstreams_assign.wire.message_parts import read_map, typed

SUBJECT = "a member that leaves"


@dataclass(frozen=True, slots=True)
class LeaveAnnounced:
    """A member is about to leave.

    ``tasks``: member id -> the tasks with state that this member gets, each with the number of offsets in its
    changelogs. ``drain_id`` is another one in each drain. ``leaves``: it leaves now.
    """

    drain_id: str
    member_id: str
    tasks: Mapping[str, Mapping[TaskId, int]] = field(default_factory=dict)
    leaves: bool = False


@dataclass(frozen=True, slots=True)
class WarmReported:
    """A member that stays answers: which tasks are warm there, and which are not restored for want of room."""

    drain_id: str
    member_id: str
    warm: frozenset[TaskId] = frozenset()
    without_room: frozenset[TaskId] = frozenset()


LeaveMessage = LeaveAnnounced | WarmReported


def write_leave_message(message: LeaveMessage) -> bytes:
    """Return the bytes of a message."""
    content: dict[str, Any] = {"drain": message.drain_id, "member": message.member_id}
    if isinstance(message, LeaveAnnounced):
        tasks = {
            member: {str(task): offsets for task, offsets in each.items()} for member, each in message.tasks.items()
        }
        content |= {"tasks": tasks, "leaves": message.leaves}
    else:
        content |= {"warm": task_names(message.warm), "without_room": task_names(message.without_room)}
    return pack(content)


def read_leave_message(value: bytes) -> LeaveMessage:
    """Return the message in these bytes. Raises ``MalformedUserData``."""
    content = read_map(value, SUBJECT)
    drain_id = typed(content.get("drain"), str, "drain", SUBJECT)
    member_id = typed(content.get("member"), str, "member", SUBJECT)
    if "tasks" not in content:
        return WarmReported(drain_id, member_id, _tasks(content, "warm"), _tasks(content, "without_room"))
    tasks = {
        typed(member, str, "tasks", SUBJECT): {
            _task(name, "tasks"): typed(offsets, int, "tasks", SUBJECT)
            for name, offsets in typed(by_task, dict, "tasks", SUBJECT).items()
        }
        for member, by_task in typed(content["tasks"], dict, "tasks", SUBJECT).items()
    }
    return LeaveAnnounced(drain_id, member_id, tasks, typed(content.get("leaves", False), bool, "leaves", SUBJECT))


def _tasks(content: Mapping[str, Any], name: str) -> frozenset[TaskId]:
    return frozenset(_task(text, name) for text in typed(content.get(name, ()), tuple, name, SUBJECT))


def _task(text: Any, name: str) -> TaskId:
    try:
        return TaskId.parse(typed(text, str, name, SUBJECT))
    except InvalidTaskId as cause:
        raise MalformedUserData(f"{name} of {SUBJECT}: {cause}") from None
