"""The order of a commit, and what a failure of each step means. Pure: the two tables are the whole rule.

At least once:

    lease -> produce -> flush -> store -> offsets

The lease is checked before anything is sent, so that a process that slept does not write over its successor, and while
records are on their way: records that have not arrived when it ends are dropped. The store follows the changelog, so a
store never holds what its changelog lacks. Input offsets come last: a crash before them repeats work, and loses none.
Outputs that were sent ahead of the commit are flushed with it.

Exactly once:

    lease -> begin -> produce -> flush -> offsets -> transaction -> store

The transaction commits changelogs, outputs and input offsets together; the store follows, and after a crash between the
two the changelog restores it. A failure after ``begin`` aborts the transaction, so committed readers never see it. The
group takes offsets only from its current generation, and a member does not know when its join ends that. So a
transaction that meets a stale generation is begun again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class CommitStep(Enum):
    """What a shell takes next, and reports the outcome of."""

    __hash__ = object.__hash__  # Enum's own, in Python, is slow in the keys of a table

    LEASE = "lease"
    BEGIN = "begin"  # a transaction
    PRODUCE = "produce"
    FLUSH = "flush"
    STORE = "store"
    OFFSETS = "offsets"
    TRANSACTION = "transaction"  # commit it
    ABORT = "abort"  # abort the transaction, and go on as failed
    WITHDRAW = "withdraw"  # abort the transaction, and go on as fenced
    RESTART = "restart"  # abort the transaction, and begin it again with the same records


class CommitEnd(Enum):
    """How a commit ends."""

    DONE = "done"
    DEFERRED = "deferred"  # everything but the offsets is done; they go with the next commit
    FENCED = "fenced"  # the tasks are another member's: drop them
    FAILED = "failed"  # nothing of it counts; the tasks are still here, and go on from their last commit


class Outcome(Enum):
    __hash__ = object.__hash__  # Enum's own, in Python, is slow in the keys of a table

    OK = "ok"
    EXPIRED = "expired"
    UNDELIVERED = "undelivered"  # not acknowledged in time, or the transaction cannot be committed
    DEFERRED = "deferred"
    REFUSED = "refused"  # by the group, or because another producer took over
    STALE = "stale"  # by the group, as a join of this very member has ended the generation: it keeps its tasks


_C, _E, _O = CommitStep, CommitEnd, Outcome
Next = CommitStep | CommitEnd
AT_LEAST_ONCE: Mapping[tuple[CommitStep, Outcome], Next] = {
    (_C.LEASE, _O.OK): _C.PRODUCE,
    (_C.LEASE, _O.EXPIRED): _E.FENCED,
    (_C.PRODUCE, _O.OK): _C.FLUSH,
    (_C.PRODUCE, _O.UNDELIVERED): _E.FAILED,
    (_C.PRODUCE, _O.REFUSED): _E.FENCED,
    (_C.PRODUCE, _O.EXPIRED): _E.FENCED,
    (_C.FLUSH, _O.OK): _C.STORE,
    (_C.FLUSH, _O.UNDELIVERED): _E.FAILED,
    (_C.FLUSH, _O.REFUSED): _E.FENCED,
    (_C.FLUSH, _O.EXPIRED): _E.FENCED,
    (_C.STORE, _O.OK): _C.OFFSETS,
    (_C.OFFSETS, _O.OK): _E.DONE,
    (_C.OFFSETS, _O.DEFERRED): _E.DEFERRED,
    (_C.OFFSETS, _O.REFUSED): _E.FENCED,
}
"""(step, its outcome) -> the next step."""

EXACTLY_ONCE: Mapping[tuple[CommitStep, Outcome], Next] = {
    (_C.LEASE, _O.OK): _C.BEGIN,
    (_C.LEASE, _O.EXPIRED): _E.FENCED,
    (_C.BEGIN, _O.OK): _C.PRODUCE,
    (_C.BEGIN, _O.UNDELIVERED): _C.ABORT,
    (_C.BEGIN, _O.REFUSED): _C.WITHDRAW,
    (_C.PRODUCE, _O.OK): _C.FLUSH,
    (_C.PRODUCE, _O.UNDELIVERED): _C.ABORT,
    (_C.PRODUCE, _O.REFUSED): _C.WITHDRAW,
    (_C.PRODUCE, _O.EXPIRED): _C.WITHDRAW,
    (_C.FLUSH, _O.OK): _C.OFFSETS,
    (_C.FLUSH, _O.UNDELIVERED): _C.ABORT,
    (_C.FLUSH, _O.REFUSED): _C.WITHDRAW,
    (_C.FLUSH, _O.EXPIRED): _C.WITHDRAW,
    (_C.OFFSETS, _O.OK): _C.TRANSACTION,
    (_C.OFFSETS, _O.STALE): _C.RESTART,
    (_C.OFFSETS, _O.UNDELIVERED): _C.ABORT,
    (_C.OFFSETS, _O.REFUSED): _C.WITHDRAW,
    (_C.TRANSACTION, _O.OK): _C.STORE,
    (_C.TRANSACTION, _O.UNDELIVERED): _C.ABORT,
    (_C.TRANSACTION, _O.REFUSED): _C.WITHDRAW,
    (_C.STORE, _O.OK): _E.DONE,
    (_C.ABORT, _O.OK): _E.FAILED,
    (_C.WITHDRAW, _O.OK): _E.FENCED,
    (_C.RESTART, _O.OK): _C.LEASE,
}
"""The same, exactly once."""


def next_step(step: CommitStep, outcome: Outcome, *, exactly_once: bool = False) -> Next:
    """Return the next step. Raises ``KeyError`` for an outcome that a step cannot have."""
    return (EXACTLY_ONCE if exactly_once else AT_LEAST_ONCE)[step, outcome]
