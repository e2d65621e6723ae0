"""Kafka's group coordinator for one classic group: joins, syncs, sessions, static members, generations, offsets.

After ``GroupMetadataManager`` and ``ClassicGroup`` of Kafka 4.3.1. Everything happens at the broker's time and at once; who asks
brings a callable for the answer, because a join is answered when everybody has joined. Not played: assignment protocols to choose
from (there is one) and authorization.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from kstreams_assign.group.values import JoinedMember, MemberAssignment
from kstreams_assign.model import TopicPartition
from kstreams_assign.sim.timeline import Timeline

INITIAL_DELAY_MS = 3_000


class Error(Enum):
    """Kafka's names."""

    NONE = "none"
    UNKNOWN_MEMBER_ID = "unknown member id"
    ILLEGAL_GENERATION = "illegal generation"
    REBALANCE_IN_PROGRESS = "rebalance in progress"
    FENCED_INSTANCE_ID = "fenced instance id"
    NOT_COORDINATOR = "not coordinator"
    MEMBER_ID_REQUIRED = "member id required"


class GroupPhase(Enum):
    EMPTY = "empty"
    PREPARING = "preparing"  # everybody is awaited
    COMPLETING = "completing"  # the leader decides
    STABLE = "stable"


class Joined(NamedTuple):
    """The answer to JoinGroup. ``members``: for the leader, who has to assign."""

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


@dataclass(frozen=True, slots=True)
class _Persisted:
    """What another broker would read from ``__consumer_offsets``."""

    generation: int = 0
    leader: str = ""
    members: tuple[tuple[JoinedMember, MemberAssignment], ...] = ()


@dataclass
class Coordinator:
    """The group. ``rebalances`` counts generations; ``accepted`` is told of every commit that is taken."""

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
        """``said.member_id`` is empty for a member that has none yet."""
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
        if self.phase is GroupPhase.STABLE:  # it takes the place of the one before, and nothing is assigned anew
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
        """The rebalance timeout: whoever has not joined is out, but for static members, whose sessions decide."""
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
        """SyncGroup; ``assignments`` comes from the leader alone."""
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
            for member, one in self.seats.items():
                one.assignment = assignments.get(member, NOTHING_ASSIGNED)
            self._persist()
            for one in list(self.seats.values()):
                if one.sync is not None:
                    waiting, one.sync = one.sync, None
                    waiting(Synced(Error.NONE, one.assignment))

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
        """One look a session at the most: at its deadline, which may have moved on."""
        seat = self.seats.get(member_id)
        if seat is None:
            return
        if self.timeline.now_ms < seat.deadline_ms:
            self.timeline.at(seat.deadline_ms, self._watch, member_id)
        elif self.away or seat.join is not None or seat.sync is not None:  # who waits for us is alive to us
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
        """OffsetCommit (``ClassicGroup.validateOffsetCommit``): not between JoinGroup's answer and SyncGroup's."""
        error = self._valid(member_id, instance_id, generation)
        if error is Error.NONE and self.phase is GroupPhase.COMPLETING:
            return Error.REBALANCE_IN_PROGRESS
        if error is Error.NONE:
            self._touch(member_id)
            self.accepted(member_id, offsets)
        return error

    # --- another broker takes over ----------------------------------------------------------

    def move(self, lasts_ms: int) -> None:
        """Nobody answers for so long; then the group is what was last written down, and all sessions begin anew."""
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
        self.seats = {said.member_id: Seat(said, assignment=assignment) for said, assignment in kept.members}
        self.phase = GroupPhase.STABLE if self.seats else GroupPhase.EMPTY
        for member in self.seats:
            self.seats[member].deadline_ms = self._away_until_ms + self.session_timeout_ms
            self._watch(member)

    def be_back(self) -> None:
        """Whoever is on the way to it has arrived."""
        self._away_until_ms = self.timeline.now_ms

    def _persist(self) -> None:
        members = tuple((seat.said, seat.assignment) for seat in self.seats.values())
        self._persisted = _Persisted(self.generation, self.leader, members)

    @property
    def away(self) -> bool:
        """Whether nobody answers, because the group moves to another broker."""
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
        if self.away:
            return Error.NOT_COORDINATOR
        error = self._known(member_id, instance_id)
        return Error.ILLEGAL_GENERATION if error is Error.NONE and generation != self.generation else error

    def _of_instance(self, instance_id: str | None) -> str | None:
        return next((m for m, seat in self.seats.items() if seat.said.instance_id == instance_id), None)

    def _new_id(self, stem: str) -> str:
        self._ids += 1
        return f"{stem}-{self._ids}"

    def _in(self, ms: int, call: Callable[[], None]) -> None:
        """Unless the group has gone on by then."""
        self._epoch += 1
        epoch = self._epoch
        self.timeline.after(ms, lambda: call() if epoch == self._epoch else None)
