"""A process's transactional producer (``adapters.confluent.transactions``), with the thread that makes its calls.

Calls are made one after another, each tried again for as long as the client would. What a call came to is an outcome of
``tasks.commit``'s table.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kstreams_assign.engine.commits import CALL_MS, refused_offsets
from kstreams_assign.sim.member import NO_GENERATION, Phase
from kstreams_assign.sim.transactions import Answer, Member, Verdict
from kstreams_assign.tasks.commit import Outcome

if TYPE_CHECKING:
    from kstreams_assign.model import TopicPartition
    from kstreams_assign.sim.committing import Share
    from kstreams_assign.sim.process import Process

RETRY_MS = 50

Request = Callable[[], Answer]
Take = Callable[[Outcome], None]

_OUTCOMES = {
    Verdict.DONE: Outcome.OK,
    Verdict.LATER: Outcome.UNDELIVERED,
    Verdict.FENCED: Outcome.REFUSED,
    Verdict.STALE: Outcome.REFUSED,
    Verdict.NOTHING_OPEN: Outcome.UNDELIVERED,
}
_SPOIL = (Verdict.FENCED, Verdict.NOTHING_OPEN)
"""After these the client has to be made again."""


class Producer:
    """Its epoch is -1 until ``init`` is answered, and again once it is spoiled."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._epoch = -1
        self._calls: deque[tuple[Request | None, Take]] = deque()
        self._calling = False
        self._begun = False
        self._losses = 0
        self._stale: Member | None = None

    def begin_commit(self) -> None:
        """A commit begins: from now on the membership must not be lost."""
        self._losses, self._stale = self._process.membership.client.losses, None

    @property
    def unsettled(self) -> bool:
        """Whether it has to be prepared: it never was, or is spoiled, and no call under way changes that."""
        return self._epoch < 0 and not self._calling

    def prepare(self, take: Take) -> None:
        """Fence what a predecessor, or a failed commit, left open."""
        self._call(self._init, take)

    def begin(self, take: Take) -> None:
        """Begin a transaction, after all earlier calls."""

        def begun(outcome: Outcome) -> None:
            self._begun = outcome is Outcome.OK
            take(outcome)

        self._call(self._init, begun)

    def append(self, shares: Sequence[Share], take: Callable[[Answer], None], lost: Callable[[], None]) -> None:
        """Send records. They are in no call: they do not wait for others, and the caller tries again."""
        epoch = self._epoch

        def answered(answer: Answer) -> None:
            if answer.verdict is Verdict.FENCED:
                self._epoch = -1
            take(answer)

        self._world.network.ask(
            self._process.run, lambda: self._world.transactions.append(self._process, epoch, shares), answered, lost
        )

    def send_offsets(self, offsets: Mapping[TopicPartition, int], take: Take) -> None:
        """Add input offsets to the transaction, under the membership of now.

        After a stale generation the commit waits for the next one.
        """
        self._send_offsets(offsets, self._losses, take, self._world.timeline.now_ms + CALL_MS)

    def _send_offsets(self, offsets: Mapping[TopicPartition, int], losses: int, take: Take, until_ms: int) -> None:
        client = self._process.membership.client
        if client.generation == NO_GENERATION or client.losses != losses:
            take(Outcome.REFUSED)
            return
        member = Member(client.member_id, self._process.instance_id, client.generation)
        if member == self._stale:
            if self._world.timeline.now_ms >= until_ms:
                take(Outcome.UNDELIVERED)
            elif self._begun:
                self._process.run.later(RETRY_MS, self._send_offsets, offsets, losses, take, until_ms)
            return
        epoch = self._epoch

        def answered(outcome: Outcome) -> None:
            if outcome is Outcome.REFUSED:
                lost = client.generation == NO_GENERATION or client.losses != losses
                joins = client.phase is Phase.JOINING or client.generation != member.generation
                outcome = refused_offsets(lost=lost, joins=joins)
            self._stale = member if outcome is Outcome.STALE else None
            take(outcome)

        self._call(lambda: self._world.transactions.add_offsets(self._process, epoch, member, offsets), answered)

    def commit(self, take: Take) -> None:
        """Commit the transaction. Whether it was is not known after any outcome but OK."""
        self._end(take, committed=True)

    def abort(self, take: Take) -> None:
        """Abort what was begun; if that fails, it stays open until ``prepare``."""
        if self._begun and self._epoch >= 0:
            self._end(lambda outcome: self._aborted(outcome, take), committed=False)
        else:
            self._begun = False
            self._call(None, take)

    def _aborted(self, outcome: Outcome, take: Take) -> None:
        if outcome is not Outcome.OK:
            self._epoch = -1
        take(outcome)

    def _end(self, take: Take, *, committed: bool) -> None:
        epoch = self._epoch
        self._begun = self._begun and committed  # an abort is asked for once

        def ended(outcome: Outcome) -> None:
            self._begun = self._begun and outcome is not Outcome.OK
            take(outcome)

        self._call(lambda: self._world.transactions.end(self._process, epoch, committed=committed), ended)

    def _init(self) -> Answer:
        return self._world.transactions.init(self._process.process_id)

    # --- the thread ---------------------------------------------------------------------------

    def _call(self, request: Request | None, take: Take) -> None:
        """Make a call after all earlier ones; None: only wait for these."""
        self._calls.append((request, take))
        if not self._calling:
            self._next()

    def _next(self) -> None:
        self._calling = bool(self._calls)
        if self._calling:
            request, take = self._calls.popleft()
            self._try(request, take, self._world.timeline.now_ms + CALL_MS)

    def _try(self, request: Request | None, take: Take, until_ms: int) -> None:
        if request is None or (request == self._init and self._epoch >= 0):
            self._over(Outcome.OK, take)
            return

        def again() -> None:
            if self._world.timeline.now_ms + RETRY_MS < until_ms:
                self._process.run.later(RETRY_MS, self._try, request, take, until_ms)
            else:
                self._over(Outcome.UNDELIVERED, take)

        def answered(answer: Answer) -> None:
            if answer.verdict is Verdict.LATER:
                again()
                return
            if answer.epoch >= 0:
                self._epoch = answer.epoch
            if answer.verdict in _SPOIL:
                self._epoch = -1
            self._over(_OUTCOMES[answer.verdict], take)

        self._world.network.ask(self._process.run, request, answered, again)

    def _over(self, outcome: Outcome, take: Take) -> None:
        self._calling = False
        take(outcome)
        if not self._calling:
            self._next()
