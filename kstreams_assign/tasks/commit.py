"""The order of a commit, and what a failure of each step means. Pure: ``next_step`` is the whole rule.

    lease -> produce -> flush -> store -> offsets

The lease is looked at before anything is sent, so that a process that slept does not write over its successor. The store
follows the changelog, never the other way round, so a store cannot hold what its changelog lacks. Input offsets come
last: a crash before them repeats work (at-least-once), it does not lose any.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class CommitStep(Enum):
    LEASE = "lease"
    PRODUCE = "produce"
    FLUSH = "flush"
    STORE = "store"
    OFFSETS = "offsets"
    DONE = "done"
    DEFERRED = "deferred"  # everything but the offsets is done; they go with the next commit
    FENCED = "fenced"  # the tasks are somebody else's: drop them
    FAILED = "failed"  # a record was not acknowledged: the task cannot go on from here


class Outcome(Enum):
    OK = "ok"
    EXPIRED = "expired"
    UNDELIVERED = "undelivered"
    DEFERRED = "deferred"
    REFUSED = "refused"


_C, _O = CommitStep, Outcome
NEXT: Mapping[tuple[CommitStep, Outcome], CommitStep] = {
    (_C.LEASE, _O.OK): _C.PRODUCE,
    (_C.LEASE, _O.EXPIRED): _C.FENCED,
    (_C.PRODUCE, _O.OK): _C.FLUSH,
    (_C.PRODUCE, _O.UNDELIVERED): _C.FAILED,
    (_C.FLUSH, _O.OK): _C.STORE,
    (_C.FLUSH, _O.UNDELIVERED): _C.FAILED,
    (_C.STORE, _O.OK): _C.OFFSETS,
    (_C.OFFSETS, _O.OK): _C.DONE,
    (_C.OFFSETS, _O.DEFERRED): _C.DEFERRED,
    (_C.OFFSETS, _O.REFUSED): _C.FENCED,
}
"""(step, its outcome) -> what comes next."""


def next_step(step: CommitStep, outcome: Outcome) -> CommitStep:
    """Raises ``KeyError`` for an outcome that a step cannot have."""
    return NEXT[step, outcome]
