"""What the parts of a process ask of its membership: the same in a classic group and in a streams group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Protocol

from kstreams_assign.engine.membership import DrainAsked, RestartAsked
from kstreams_assign.group import member
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sim.coordinator import Error
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.mutex import ReportMutex
from kstreams_assign.tasks.commit import Outcome

NO_GENERATION = -1


class Phase(Enum):
    UNJOINED = "unjoined"
    JOINING = "joining"  # in a streams group: the answer to a heartbeat may bring another epoch
    STABLE = "stable"


class GroupClient(Protocol):
    """A connection to the group. In a streams group the generation is the member's epoch."""

    @property
    def member_id(self) -> str: ...

    @property
    def generation(self) -> int: ...

    @property
    def losses(self) -> int:
        """How often the membership was lost, as far as this client has noticed."""
        ...

    @property
    def phase(self) -> Phase: ...

    @property
    def joined(self) -> bool: ...

    @property
    def lease_left_ms(self) -> int:
        """For how long this member may still write."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, int], ended: Callable[[Outcome], None]) -> None: ...

    def commit_once(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit in the generation of now, and in no other; its outcome is not reported."""
        ...


class Member(Protocol):
    """The membership of a process."""

    @property
    def client(self) -> GroupClient: ...

    @property
    def sums(self) -> OffsetSums: ...

    @property
    def mutex(self) -> ReportMutex: ...

    def start(self) -> None: ...

    def handle(self, event: member.Event | DrainAsked | RestartAsked) -> None: ...

    def turn_soon(self) -> None: ...

    def rejoin(self, reason: str) -> None: ...

    def leave(self) -> None:
        """Leave the group, all tasks being closed."""
        ...


class Group(Protocol):
    """The coordinator, as far as any member, fault or checker needs it."""

    rebalances: int

    def transactional_commit(
        self, member_id: str, instance_id: str | None, generation: int, offsets: Mapping[TopicPartition, int]
    ) -> Error: ...

    def owns(self, member_id: str, task: TaskId) -> bool: ...

    def may_commit(self, member_id: str, generation: int, task: TaskId) -> bool: ...

    def move(self, lasts_ms: int) -> None: ...

    def be_back(self) -> None: ...
