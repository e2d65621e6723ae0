"""Kafka's group coordinator for one classic group: joins, syncs, sessions, static members, generations, offsets.

After ``GroupMetadataManager`` and ``ClassicGroup`` of Kafka 4.3.1. The broker takes no time. A request brings a
callable for its answer, because JoinGroup is answered when all members have joined. Not simulated: several assignment
protocols, authorization.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from kstreams_assign.group.values import JoinedMember, MemberAssignment
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.sim.timeline import Timeline

INITIAL_DELAY_MS = 3_000


class Error(Enum):
    """Errors, by Kafka's names."""

    NONE = "none"
    UNKNOWN_MEMBER_ID = "unknown member id"
    ILLEGAL_GENERATION = "illegal generation"
    REBALANCE_IN_PROGRESS = "rebalance in progress"
    FENCED_INSTANCE_ID = "fenced instance id"
    NOT_COORDINATOR = "not coordinator"
    MEMBER_ID_REQUIRED = "member id required"
    STALE_EPOCH = "stale member epoch"


class GroupPhase(Enum):
    EMPTY = "empty"
    PREPARING = "preparing"  # waits for all members to join
    COMPLETING = "completing"  # waits for the leader's decision
    STABLE = "stable"


class Joined(NamedTuple):
    """The answer to JoinGroup. ``members``: for the leader, which assigns."""

    error: Error
    member_id: str = ""
    generation: int = -1
    members: tuple[JoinedMember, ...] = ()


class Synced(NamedTuple):
    """The answer to SyncGroup."""

    error: Error
    assignment: MemberAssignment | None = None


AnswerJoin = Callable[[Joined], None]
AnswerSync = Callable[[Synced], None]

NOTHING_ASSIGNED = MemberAssignment((), b"")


@dataclass(slots=True)
class Seat:
    """A member as the coordinator knows it."""

    said: JoinedMember
    deadline_ms: int = 0
    assignment: MemberAssignment = NOTHING_ASSIGNED
    join: AnswerJoin | None = None
    sync: AnswerSync | None = None
    missing: bool = False
    """A static member that did not join the present generation. It stays until its session ends."""


@dataclass(frozen=True, slots=True)
class _Persisted:
    """The group as another broker would load it from ``__consumer_offsets``."""

    generation: int = 0
    leader: str = ""
    members: tuple[tuple[JoinedMember, MemberAssignment], ...] = ()
    missing: frozenset[str] = frozenset()
    """No part of the records: for ``owns``."""


@dataclass
class Coordinator:
    """The group. ``rebalances`` counts generations; ``accepted`` is called for each accepted commit."""

    timeline: Timeline
    session_timeout_ms: int
    rebalance_timeout_ms: int
    accepted: Callable[[str, Mapping[TopicPartition, int]], None]
    phase: GroupPhase = GroupPhase.EMPTY
    generation: int = 0
    leader: str = ""
    seats: dict[str, Seat] = field(default_factory=dict)
    rebalances: int = 0
    _pending: set[str] = field(default_factory=set)
    _ids: int = 0
    _epoch: int = 0
    _away_until_ms: int = 0
    _delayed: bool = False
    _persisted: _Persisted = _Persisted()

    # --- JoinGroup ------------------------------------------------------------------

    def join(self, said: JoinedMember, answer: AnswerJoin) -> None:
        """Handle JoinGroup; ``said.member_id`` is empty for a member without an id."""
        if self.away:
            answer(Joined(Error.NOT_COORDINATOR))
        elif not said.member_id and said.instance_id is None:
            self._pending.add(given := self._new_id("member"))
            answer(Joined(Error.MEMBER_ID_REQUIRED, given))
        elif not said.member_id:
            self._join_static(said, answer)
        elif said.member_id in self._pending:
            self._pending.remove(said.member_id)
            self._join_new(said, answer)
        elif (error := self._known(said.member_id, said.instance_id)) is not Error.NONE:
            answer(Joined(error, said.member_id))
        else:
            self._rejoin(self.seats[said.member_id], said, answer)

    def _join_new(self, said: JoinedMember, answer: AnswerJoin) -> None:
        self.seats[said.member_id] = Seat(said, join=answer)
        self._touch(said.member_id)
        self._watch(said.member_id)
        self._prepare()

    def _join_static(self, said: JoinedMember, answer: AnswerJoin) -> None:
        said = replace(said, member_id=self._new_id(said.instance_id or ""))
        before = self._of_instance(said.instance_id)
        if before is None:
            self._join_new(said, answer)
            return
        old = self.seats.pop(before)
        if old.join is not None:
            old.join(Joined(Error.FENCED_INSTANCE_ID))
        if old.sync is not None:
            old.sync(Synced(Error.FENCED_INSTANCE_ID))
        seat = self.seats[said.member_id] = Seat(said, assignment=old.assignment)
        self.leader = said.member_id if self.leader == before else self.leader
        self._touch(said.member_id)
        self._watch(said.member_id)
        if self.phase is GroupPhase.STABLE:  # it replaces its predecessor without a rebalance
            self._persist()
            answer(Joined(Error.NONE, said.member_id, self.generation))
            return
        seat.join = answer
        self._prepare()

    def _rejoin(self, seat: Seat, said: JoinedMember, answer: AnswerJoin) -> None:
        same = seat.said == said
        self._touch(said.member_id)
        if self.phase is GroupPhase.COMPLETING and same:
            answer(self._current(said.member_id))
        elif self.phase is GroupPhase.STABLE and same and said.member_id != self.leader:
            answer(Joined(Error.NONE, said.member_id, self.generation))
        else:
            seat.said, seat.join = said, answer
            self._prepare()

    def _current(self, member_id: str) -> Joined:
        members = tuple(seat.said for seat in self.seats.values()) if member_id == self.leader else ()
        return Joined(Error.NONE, member_id, self.generation, members)

    # --- a rebalance -----------------------------------------------------------------

    def _prepare(self) -> None:
        if self.phase is GroupPhase.PREPARING:
            if not self._delayed:
                self._complete_if_all_are_here()
            return
        for seat in self.seats.values():
            if seat.sync is not None:
                answer, seat.sync = seat.sync, None
                answer(Synced(Error.REBALANCE_IN_PROGRESS))
        self._delayed = self.phase is GroupPhase.EMPTY
        self.phase = GroupPhase.PREPARING
        self._in(INITIAL_DELAY_MS if self._delayed else self.rebalance_timeout_ms, self._join_over)
        if not self._delayed:
            self._complete_if_all_are_here()

    def _complete_if_all_are_here(self) -> None:
        if self.phase is GroupPhase.PREPARING and all(seat.join for seat in self.seats.values()):
            self._complete()

    def _join_over(self) -> None:
        """Remove members that have not joined in time; static members stay until their session ends."""
        self._delayed = False
        for member in [m for m, seat in self.seats.items() if seat.join is None and seat.said.instance_id is None]:
            del self.seats[member]
        if self.seats and not any(seat.join for seat in self.seats.values()):
            self._in(self.rebalance_timeout_ms, self._join_over)
            return
        self._complete()

    def _complete(self) -> None:
        self._epoch += 1
        if not self.seats:
            self.phase, self.leader = GroupPhase.EMPTY, ""
            self._persist()
            return
        self.generation += 1
        self.rebalances += 1
        self.phase = GroupPhase.COMPLETING
        if self.leader not in self.seats or self.seats[self.leader].join is None:
            self.leader = next(member for member, seat in self.seats.items() if seat.join)
        self._in(self.rebalance_timeout_ms, self._sync_over)
        for member, seat in list(self.seats.items()):
            seat.assignment = NOTHING_ASSIGNED
            self._touch(member)
            seat.missing = seat.join is None
            if seat.join is not None:
                answer, seat.join = seat.join, None
                answer(self._current(member))

    def _sync_over(self) -> None:
        if self.phase is GroupPhase.COMPLETING:
            for member in [m for m, seat in self.seats.items() if seat.sync is None]:
                del self.seats[member]
            self._prepare()

    def sync(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        assignments: Mapping[str, MemberAssignment],
        answer: AnswerSync,
    ) -> None:
        """Handle SyncGroup; only the leader sends ``assignments``."""
        error = self._valid(member_id, instance_id, generation)
        if error is not Error.NONE or self.phase is GroupPhase.PREPARING:
            answer(Synced(error if error is not Error.NONE else Error.REBALANCE_IN_PROGRESS))
            return
        self._touch(member_id)
        seat = self.seats[member_id]
        if self.phase is GroupPhase.STABLE:
            answer(Synced(Error.NONE, seat.assignment))
            return
        seat.sync = answer
        if member_id == self.leader:
            self._epoch += 1
            self.phase = GroupPhase.STABLE
            for member, waiter in self.seats.items():
                waiter.assignment = assignments.get(member, NOTHING_ASSIGNED)
            self._persist()
            for waiter in list(self.seats.values()):
                if waiter.sync is not None:
                    waiting, waiter.sync = waiter.sync, None
                    waiting(Synced(Error.NONE, waiter.assignment))

    # --- heartbeats, sessions, leaving --------------------------------------------------

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> Error:
        error = self._valid(member_id, instance_id, generation)
        if error is not Error.NONE:
            return error
        self._touch(member_id)
        return Error.REBALANCE_IN_PROGRESS if self.phase is GroupPhase.PREPARING else Error.NONE

    def leave(self, member_id: str) -> None:
        if not self.away and member_id in self.seats:
            self._remove(member_id)

    def _touch(self, member_id: str) -> None:
        self.seats[member_id].deadline_ms = self.timeline.now_ms + self.session_timeout_ms

    def _watch(self, member_id: str) -> None:
        """Check a session at its deadline, which may have moved by then."""
        seat = self.seats.get(member_id)
        if seat is None:
            return
        if self.timeline.now_ms < seat.deadline_ms:
            self.timeline.at(seat.deadline_ms, self._watch, member_id)
        elif self.away or seat.join is not None or seat.sync is not None:  # a member that waits for an answer is alive
            self.timeline.after(self.session_timeout_ms, self._watch, member_id)
        else:
            self._remove(member_id)

    def _remove(self, member_id: str) -> None:
        del self.seats[member_id]
        if self.phase is GroupPhase.PREPARING:
            self._complete_if_all_are_here()
        else:
            self._prepare()

    # --- offsets ------------------------------------------------------------------------

    def commit(
        self, member_id: str, instance_id: str | None, generation: int, offsets: Mapping[TopicPartition, int]
    ) -> Error:
        """Handle OffsetCommit, refused between the answers to JoinGroup and SyncGroup (``validateOffsetCommit``)."""
        error = self._valid(member_id, instance_id, generation)
        if error is Error.NONE and self.phase is GroupPhase.COMPLETING:
            return Error.REBALANCE_IN_PROGRESS
        if error is Error.NONE:
            self._touch(member_id)
            self.accepted(member_id, offsets)
        return error

    def transactional_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        offsets: Mapping[TopicPartition, int],  # noqa: ARG002  # a generation fences all tasks alike
    ) -> Error:
        """Handle a TxnOffsetCommit, accepted also while the group rebalances; its offsets count once committed.

        Unlike a plain OffsetCommit, it does not renew the session (``OffsetMetadataManager``).
        """
        return self._valid(member_id, instance_id, generation)

    def owns(self, member_id: str, task: TaskId) -> bool:  # noqa: ARG002  # a generation fences all tasks alike
        """Return whether a member may have this task, as far as the coordinator knows."""
        return member_id in self.seats and not self.seats[member_id].missing

    def may_commit(self, member_id: str, generation: int, task: TaskId) -> bool:  # noqa: ARG002
        """Return whether a member of this generation may commit."""
        return self.is_present(member_id, generation)

    def is_present(self, member_id: str, generation: int) -> bool:
        """Return whether this is a member in the present generation.

        The number alone does not show it: after a move to another broker the group may use a number again.
        """
        return member_id in self.seats and generation == self.generation

    # --- another broker takes over ----------------------------------------------------------

    def move(self, lasts_ms: int) -> None:
        """Stop answering for ``lasts_ms``; then the group is as last persisted, and all sessions start again."""
        self._away_until_ms = self.timeline.now_ms + lasts_ms
        for seat in self.seats.values():
            if seat.join is not None:
                seat.join(Joined(Error.NOT_COORDINATOR))
            if seat.sync is not None:
                seat.sync(Synced(Error.NOT_COORDINATOR))
        kept = self._persisted
        self._epoch += 1
        self._pending.clear()
        self._delayed = False
        self.generation, self.leader = max(kept.generation, 0), kept.leader
        self.seats = {
            said.member_id: Seat(said, assignment=assignment, missing=said.member_id in kept.missing)
            for said, assignment in kept.members
        }
        self.phase = GroupPhase.STABLE if self.seats else GroupPhase.EMPTY
        self._start_sessions()

    def be_back(self) -> None:
        """End the move to another broker, if one is under way: all sessions start now."""
        if self.away:
            self._away_until_ms = self.timeline.now_ms
            self._start_sessions()

    def _start_sessions(self) -> None:
        """Let the session of each member start when this broker answers."""
        for member in self.seats:
            self.seats[member].deadline_ms = self._away_until_ms + self.session_timeout_ms
            self._watch(member)

    def _persist(self) -> None:
        members = tuple((seat.said, seat.assignment) for seat in self.seats.values())
        missing = frozenset(member for member, seat in self.seats.items() if seat.missing)
        self._persisted = _Persisted(self.generation, self.leader, members, missing)

    @property
    def away(self) -> bool:
        """Whether the group is moving to another broker, so no broker answers."""
        return self.timeline.now_ms < self._away_until_ms

    # --- who is who -----------------------------------------------------------------------

    def _known(self, member_id: str, instance_id: str | None) -> Error:
        seat = self.seats.get(member_id)
        if instance_id is not None and (seat is None or seat.said.instance_id != instance_id):
            now = self._of_instance(instance_id)
            if now is not None and now != member_id:
                return Error.FENCED_INSTANCE_ID
        return Error.UNKNOWN_MEMBER_ID if seat is None else Error.NONE

    def _valid(self, member_id: str, instance_id: str | None, generation: int) -> Error:
        if self.timeline.now_ms < self._away_until_ms:
            return Error.NOT_COORDINATOR
        error = self._known(member_id, instance_id)
        return Error.ILLEGAL_GENERATION if error is Error.NONE and generation != self.generation else error

    def _of_instance(self, instance_id: str | None) -> str | None:
        return next((m for m, seat in self.seats.items() if seat.said.instance_id == instance_id), None)

    def _new_id(self, stem: str) -> str:
        self._ids += 1
        return f"{stem}-{self._ids}"

    def _in(self, ms: int, call: Callable[[], None]) -> None:
        """Schedule a call, unless the group's epoch has changed by then."""
        self._epoch += 1
        epoch = self._epoch
        self.timeline.after(ms, lambda: call() if epoch == self._epoch else None)
