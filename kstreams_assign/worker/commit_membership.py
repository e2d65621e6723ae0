"""Under which membership a commit sends its input offsets, and what a transaction's refusal by the group means.

A member that was lost joins again at once, so a valid generation or lease does not mean that the tasks are still this
member's. The losses do: each is counted before the client can be in another generation. So look at the generation or
the lease first, and then whether the membership was lost. ``engine.commits.refused_offsets`` has the rule about
refusals; here are the facts about this member. Any thread may ask.
"""

from __future__ import annotations

from typing import Protocol

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.engine.commits import refused_offsets
from kstreams_assign.errors import CommitDeferred, CommitRefused
from kstreams_assign.group.values import MemberId
from kstreams_assign.tasks.commit import Outcome

UNNAMED_MS = 5_000
"""How long to wait for the name of a new generation, once the group has refused the old one."""


class Members(Protocol):
    """What is asked of the membership."""

    def member(self) -> MemberId:
        """The membership of now. Raises ``CommitDeferred``, ``CommitRefused``."""
        ...

    def transaction_member(self) -> MemberId:
        """The same for a transaction, also while the group rebalances. Raises ``CommitRefused``."""
        ...

    @property
    def losses(self) -> int:
        """How often the membership was lost."""
        ...


class GenerationEnded(Exception):
    """The group refused offsets because a join of this member has ended the generation: it keeps its tasks."""


class CommitMembership:
    """One membership, for one commit after another; ``begin`` says that the next one begins.

    ``losses``: how often the membership had been lost before this one. A call that waits for its turn keeps the
    membership that its commit began under.
    """

    def __init__(self, members: Members, losses: int) -> None:
        self._members = members
        self._losses = losses
        self._refused: tuple[MemberId, int] | None = None

    def begin(self) -> None:
        """A commit begins: the group has refused nothing of it."""
        self._refused = None

    @property
    def is_lost(self) -> bool:
        """Whether this membership was lost: its tasks may be others' now."""
        return self._members.losses != self._losses

    @property
    def unnamed_ms(self) -> int | None:
        """For how long the group has a generation whose name this member does not know; None: not so."""
        if self._refused is None or self._refused[0] != self._now():
            return None
        return monotonic_ms() - self._refused[1]

    def member(self) -> MemberId:
        """Return the membership to send offsets under. Raises ``CommitRefused`` if it was lost."""
        member = self._members.transaction_member()
        self.check_kept()
        return member

    def check_kept(self) -> None:
        """Raise ``CommitRefused`` if this membership was lost."""
        if self.is_lost:
            raise CommitRefused("commit offsets: the membership of these tasks was lost")

    def refused(self, member: MemberId, cause: CommitRefused) -> None:
        """The group refused offsets of this membership. Raises ``GenerationEnded`` if it keeps its tasks."""
        if refused_offsets(lost=self.is_lost, joins=self._joins_again(member)) is Outcome.STALE:
            self._refused = member, monotonic_ms()
            raise GenerationEnded(f"the group has a new generation: {cause}") from cause

    def _joins_again(self, member: MemberId) -> bool:
        try:
            return self._members.member() != member
        except CommitDeferred:
            return True
        except CommitRefused:
            return False

    def _now(self) -> MemberId | None:
        try:
            return self._members.transaction_member()
        except CommitRefused:
            return None
