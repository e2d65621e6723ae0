"""A member's connection to its group as kafka-python 3.0.12 keeps it (``BaseCoordinator``), with what our adapter adds.

It keeps the habits that matter: a lost membership is reported when the next JoinGroup is made, and only if partitions
were assigned; a join is retried for ever; during a join no heartbeats are sent, and commits are deferred without asking
the broker; partitions that an assignment lacks are revoked, and then the client joins again (KIP-429), as Java's does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from kstreams_assign.group.joining import has_missed
from kstreams_assign.group.lease import Lease
from kstreams_assign.group.values import JoinedMember, MemberAssignment
from kstreams_assign.model import TopicPartition
from kstreams_assign.sim.broker import Network, ignored, nothing
from kstreams_assign.sim.coordinator import AnswerJoin, Coordinator, Error, Joined, Synced
from kstreams_assign.sim.incarnation import Incarnation
from kstreams_assign.sim.member import NO_GENERATION, Phase
from kstreams_assign.sim.scenario import Scenario
from kstreams_assign.sim.timeline import Timeline
from kstreams_assign.tasks.commit import Outcome

BACKOFF_MS, BACKOFF_MAX_MS = 20, 1_000
"""As ``adapters.kafka_python.retries``, without its differences by chance."""


class Protocolist(Protocol):
    """Who answers the client's questions, as in ``adapters.kafka_python``."""

    def subscription(self) -> tuple[Sequence[TopicPartition], Callable[[], bytes]]:
        """What it owns, and its user-data, to be written if anybody is going to read it."""
        ...

    def lead(self, members: Sequence[JoinedMember]) -> Mapping[str, MemberAssignment]: ...

    def assigned(self, generation: int, partitions: Sequence[TopicPartition], user_data: bytes) -> None: ...

    def lost(self) -> None: ...

    def fenced(self) -> None:
        """Another process has this instance id: this one ends."""
        ...

    def turn_soon(self) -> None:
        """Something has changed that the membership's thread would see in its next turn."""
        ...


class Client:
    """What it is asked is answered later, through the protocolist or a callable."""

    def __init__(
        self,
        who: Incarnation,
        timeline: Timeline,
        network: Network,
        coordinator: Coordinator,
        topics: tuple[str, ...],
        instance_id: str | None,
        scenario: Scenario,
        protocolist: Protocolist,
        *,
        leased: bool = True,
    ) -> None:
        self._who = who
        self._timeline = timeline
        self._network = network
        self._coordinator = coordinator
        self._topics = topics
        self._instance_id = instance_id
        self._scenario = scenario
        self._protocolist = protocolist
        self._leased = leased
        self.member_id = ""
        self.generation = NO_GENERATION
        self.phase = Phase.UNJOINED
        self.revokes_after_join = True
        """KIP-429: it revokes what an assignment lacks, and then joins again. Others give partitions up before."""
        self._rejoin_needed = True
        self._in_flight = False
        self._backoff_ms = BACKOFF_MS
        self._assigned: Sequence[TopicPartition] = ()
        self.losses = 0
        """How often the membership was lost, as far as this client has noticed."""
        self._lease = Lease()
        """Renewed as by ``adapters.kafka_python.lease``."""
        who.later(scenario.heartbeat_interval_ms, self._beat)

    # --- joining ---------------------------------------------------------------------

    def needs_join(self) -> bool:
        return self._rejoin_needed

    def request_rejoin(self) -> None:
        self._rejoin_needed = True

    def join(self) -> None:
        """Begin an attempt, unless one is under way or there is no need."""
        if self._in_flight or not self._rejoin_needed:
            return
        self._in_flight = True
        self._send_join()

    def _send_join(self) -> None:
        self.phase = Phase.JOINING
        self._rejoin_needed = True
        if self.generation == NO_GENERATION and self._assigned:
            self._assigned = ()
            self.losses += 1
            self._protocolist.lost()
        owned, user_data = self._protocolist.subscription()
        ask = partial(self._at_coordinator, self.member_id, tuple(owned), user_data)
        self._network.call(self._who, ask, self._joined, self._join_failed)

    def _at_coordinator(
        self,
        member_id: str,
        owned: tuple[TopicPartition, ...],
        user_data: Callable[[], bytes],
        answer: AnswerJoin,
    ) -> None:
        if self._coordinator.away:  # most joins are tried again and again while it is
            answer(Joined(Error.NOT_COORDINATOR))
        else:
            said = JoinedMember(member_id, self._topics, owned, user_data(), self._instance_id)
            self._coordinator.join(said, answer)

    def _join_failed(self) -> None:
        self._who.later(self._backoff_ms, self._send_join)
        self._backoff_ms = min(2 * self._backoff_ms, BACKOFF_MAX_MS)

    def _joined(self, answer: Joined) -> None:
        if answer.error is Error.FENCED_INSTANCE_ID:
            self._protocolist.fenced()
        elif answer.error in (Error.UNKNOWN_MEMBER_ID, Error.MEMBER_ID_REQUIRED):
            self._backoff_ms = BACKOFF_MS
            self._reset(answer.member_id if answer.error is Error.MEMBER_ID_REQUIRED else "")
            self._send_join()
        elif answer.error is not Error.NONE:
            self._join_failed()
        elif self._instance_id is not None and self._assigned and has_missed(self.generation, answer.generation):
            self._reset(answer.member_id)
            self._send_join()
        else:
            self.member_id, self.generation = answer.member_id, answer.generation
            answers = self._protocolist.lead(answer.members) if answer.members else {}
            self._send_sync(answers)

    def _send_sync(self, answers: Mapping[str, MemberAssignment]) -> None:
        member, generation, sent_ms = self.member_id, self.generation, self._timeline.now_ms

        def ask(answer: Callable[[Synced], None]) -> None:
            self._coordinator.sync(member, self._instance_id, generation, answers, answer)

        self._network.call(self._who, ask, lambda answer: self._synced(answer, sent_ms), self._join_failed)

    def _synced(self, answer: Synced, sent_ms: int) -> None:
        if answer.error is Error.NOT_COORDINATOR:
            self._join_failed()
            return
        self._backoff_ms = BACKOFF_MS
        if answer.error is Error.FENCED_INSTANCE_ID:
            self._protocolist.fenced()
            return
        if answer.error in (Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION):
            self._reset(self.member_id if answer.error is Error.ILLEGAL_GENERATION else "")
        if answer.error is not Error.NONE or answer.assignment is None:
            self._send_join()
            return
        self.phase = Phase.STABLE
        self._in_flight = False
        self._lease.renew(sent_ms)
        before, self._assigned = self._assigned, answer.assignment.partitions
        self._rejoin_needed = self.revokes_after_join and not set(before).issubset(self._assigned)
        self._protocolist.assigned(self.generation, answer.assignment.partitions, answer.assignment.user_data)

    def _reset(self, member_id: str) -> None:
        self.member_id, self.generation = member_id, NO_GENERATION
        self.phase, self._rejoin_needed = Phase.UNJOINED, True

    # --- staying -----------------------------------------------------------------------

    def _beat(self) -> None:
        self._who.later(self._scenario.heartbeat_interval_ms, self._beat)
        if self.phase is not Phase.STABLE:
            return
        generation = self.generation
        beat = partial(self._coordinator.heartbeat, self.member_id, self._instance_id, generation)
        self._network.ask(self._who, beat, partial(self._beaten, generation, self._timeline.now_ms), nothing)

    def _beaten(self, generation: int, sent_ms: int, error: Error) -> None:
        if self.phase is not Phase.STABLE or generation != self.generation:
            return
        if error is Error.NONE:
            self._lease.renew(sent_ms)
        elif error is Error.REBALANCE_IN_PROGRESS:
            self._lease.renew(sent_ms, settled=False)
            self._rejoin_needed = True
        elif error is Error.FENCED_INSTANCE_ID:
            self._protocolist.fenced()
        elif error in (Error.ILLEGAL_GENERATION, Error.UNKNOWN_MEMBER_ID):
            self._reset(self.member_id if error is Error.ILLEGAL_GENERATION else "")
        if self._rejoin_needed:
            self._protocolist.turn_soon()

    @property
    def joined(self) -> bool:
        return self.phase is Phase.STABLE

    @property
    def lease_left_ms(self) -> int:
        """For how long this member may still write; without a lease, always a whole session."""
        session_ms = self._scenario.session_timeout_ms
        if not self._leased:
            return session_ms
        ends_ms = self._lease.ends_ms(session_ms, self._scenario.rebalance_timeout_ms)
        return 0 if ends_ms is None or self.generation == NO_GENERATION else ends_ms - self._timeline.now_ms

    def leave(self, *, static: bool) -> None:
        """Leave the group; ``static``: also a static member, which otherwise keeps its place for a while."""
        member = self.member_id
        if member and (static or self._instance_id is None):
            self._network.tell(self._who, lambda: self._coordinator.leave(member))

    # --- offsets --------------------------------------------------------------------------

    @property
    def commit_refused(self) -> Outcome | None:
        """Why a commit is not even asked for; None: this member is in a generation."""
        if self.phase is Phase.STABLE:
            return None
        return Outcome.DEFERRED if self.phase is Phase.JOINING else Outcome.REFUSED

    def commit(self, offsets: Mapping[TopicPartition, int], ended: Callable[[Outcome], None]) -> None:
        """Commit in this generation; ``ended`` gets the outcome as ``worker.committing`` reads the client's errors."""
        if (refused := self.commit_refused) is not None:
            ended(refused)
            return
        generation = self.generation
        commit = partial(self._coordinator.commit, self.member_id, self._instance_id, generation, offsets)
        answered = partial(self._committed, generation, ended)
        self._network.ask(self._who, commit, answered, partial(ended, Outcome.DEFERRED))

    def commit_once(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.commit(offsets, ignored)

    def _committed(self, generation: int, ended: Callable[[Outcome], None], error: Error) -> None:
        if error in (Error.ILLEGAL_GENERATION, Error.UNKNOWN_MEMBER_ID) and generation == self.generation:
            self._reset(self.member_id if error is Error.ILLEGAL_GENERATION else "")
        if error is Error.REBALANCE_IN_PROGRESS:  # kafka-python makes a failed commit of it
            self._rejoin_needed = True
        later = error is Error.NOT_COORDINATOR
        ended(Outcome.OK if error is Error.NONE else Outcome.DEFERRED if later else Outcome.REFUSED)
        self._protocolist.turn_soon()
