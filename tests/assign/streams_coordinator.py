"""The slow twin of a coordinator of streams groups: it keeps members as Kafka does, and assigns when it is asked to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kstreams_assign.assign import StreamsMember, SubtopologyTasks, assign_streams_tasks
from kstreams_assign.assign.java.member_table import MemberTable
from kstreams_assign.assign.streams_group import StreamsGroupInput, Target


class Coordinator:
    """Members in Kafka's table, a target whenever it is asked for."""

    def __init__(self, subtopologies: Mapping[int, SubtopologyTasks], standbys: int) -> None:
        self.table = MemberTable()
        self.members: dict[str, StreamsMember] = {}
        self.subtopologies, self.standbys = subtopologies, standbys

    def join(self, member: StreamsMember, *, is_served: bool) -> None:
        """Add a member; unless ``is_served``, the target is computed later, at another heartbeat."""
        order = [*self.table.order(), member.member_id]
        self.members[member.member_id] = member
        if is_served:
            self.assign(order)
        self.table.put(member.member_id)

    def leave(self, name: str) -> None:
        self.table.remove(name)
        del self.members[name]

    def move(self, order: Sequence[str]) -> None:
        """Let another broker read the group's records, whose members come in this order."""
        self.table = MemberTable()
        for name in order:
            self.table.put(name)

    def assign(self, order: Sequence[str] | None = None) -> None:
        members = [self.members[name] for name in order or self.table.order()]
        for name, tasks in assign_streams_tasks(members, self.subtopologies, self.standbys).items():
            self.members[name] = replace(self.members[name], active=tasks.active, standby=tasks.standby)

    def described(self) -> StreamsGroupInput:
        members = tuple(self.members[name] for name in self.table.order())
        return StreamsGroupInput(members, self.subtopologies, self.standbys)

    def target(self) -> Target:
        return self.described().target
