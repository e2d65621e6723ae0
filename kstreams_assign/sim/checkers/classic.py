"""The checkers of a classic group."""

from __future__ import annotations

from kstreams_assign.sim.checkers.checker import Checker
from kstreams_assign.sim.checkers.decisions import EarlyRequestsEnd, SameOnEveryLeader, WarmupsWithin
from kstreams_assign.sim.checkers.owners import DrainedAreIdle, FencedIsSilent, OneOwner, PromisesKept
from kstreams_assign.sim.checkers.results import NoWorkLost, OffsetsGoOn, OnceOnly, OutputsComplete, StoresFollow


def every_checker() -> list[Checker]:
    """Return a new checker of each kind, for a classic group."""
    kinds = (
        OneOwner,
        FencedIsSilent,
        PromisesKept,
        WarmupsWithin,
        OffsetsGoOn,
        OutputsComplete,
        NoWorkLost,
        OnceOnly,
        StoresFollow,
        DrainedAreIdle,
        SameOnEveryLeader,
        EarlyRequestsEnd,
    )
    return [kind() for kind in kinds]
