"""``assign-streams-group``: turn a request into members and subtopologies, and write the target as Java's harness does.

No decision is made here.
"""

from __future__ import annotations

from kstreams_assign.assign import StreamsMember, SubtopologyTasks, assign_streams_tasks
from kstreams_assign.assign.java_order import sorted_tasks, text_order
from kstreams_assign.errors import ConfigError
from kstreams_assign.peer import fields
from kstreams_assign.peer.lines import Json


def assign_streams_group(request: Json) -> Json:
    """Return every member's target assignment, member ids in Java's order. Raises ``ConfigError``."""
    fields.need(request, "members")
    described = [fields.mapping(entry, "members") for entry in fields.items(request, "members")]
    members = [_member(entry) for entry in described]
    if len({member.member_id for member in members}) < len(members):
        raise ConfigError("a member is listed twice")
    subtopologies = {
        _subtopology(name): _tasks(fields.mapping(entry, f"subtopologies.{name}"))
        for name, entry in fields.members(request, "subtopologies").items()
    }
    standbys = fields.number_or(request, "num_standby_replicas", 0, fields.INT32_MAX)
    target = assign_streams_tasks(members, subtopologies, standbys)
    return {
        "members": {
            name: {
                "active": list(map(str, sorted_tasks(target[name].active))),
                "standby": list(map(str, sorted_tasks(target[name].standby))),
                "warmup": [],
            }
            for name in sorted(target, key=text_order)
        }
    }


def _member(entry: Json) -> StreamsMember:
    fields.tasks(entry, "warmup")  # without effect, as in Kafka
    return StreamsMember(
        fields.text(fields.need(entry, "member_id"), "member_id"),
        fields.text(fields.need(entry, "process_id"), "process_id"),
        frozenset(fields.tasks(entry, "active")),
        frozenset(fields.tasks(entry, "standby")),
    )


def _subtopology(name: str) -> int:
    if not name.isdecimal() or str(int(name)) != name:
        raise ConfigError(f"subtopologies has {name!r}; it must be a number, as in '0'")
    return int(name)


def _tasks(entry: Json) -> SubtopologyTasks:
    count = fields.number(fields.need(entry, "tasks"), "tasks", fields.INT32_MAX)
    return SubtopologyTasks(count, entry.get("stateful") is True)
