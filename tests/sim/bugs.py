"""Bugs to plant, one at a time, and the invariant that each violates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kstreams_assign.assign import drain
from kstreams_assign.assign.least_movement import assignor
from kstreams_assign.sim import client, committing, loop, membership, restoring
from tests.sim import doubles


@dataclass(frozen=True)
class Bug:
    """``plant`` takes pytest's monkeypatch; ``first``: seeds from here on soon show the bug.

    ``exactly_once``: it shows under this guarantee. ``timed``: only with a rebalance timeout shorter than the session.
    ``other_decisions``: one seed in tens of thousands shows it, and
    this one only where ``least_movement`` decides otherwise about restores and standbys, and restores are slower.
    """

    name: str
    invariant: str
    plant: Callable[..., None]
    first: int = 0
    exactly_once: bool = False
    timed: bool = False
    other_decisions: bool = False

    def plant_in(self, patch) -> None:
        """Plant it in the groups of its seeds."""
        if self.other_decisions:
            doubles.decide_otherwise(patch)
        self.plant(patch)


BUGS = (
    Bug(
        "the cleaner ignores the mutex",
        "no state deleted under a reported lag",
        lambda patch: patch.setattr(membership, "ReportMutex", doubles.CarelessMutex),
        12,
    ),
    Bug(
        "dormant state is reported without the mutex",
        "no state deleted under a reported lag",
        lambda patch: patch.setattr(membership, "OffsetSums", doubles.BoastfulSums),
        121,
    ),
    Bug(
        "the new owner does not wait for the old one",
        "one active owner per task and generation",
        doubles.old_owner_ignored,
        29,
    ),
    Bug(
        "the lease counts from when an answer is read",
        "no processing and no commit by a fenced member",
        lambda patch: patch.setattr(membership, "Client", doubles.TrustingClient),
        1_327,
    ),
    Bug(
        "the lease ignores the rebalance timeout",
        "no processing and no commit by a fenced member",
        lambda patch: patch.setattr(membership, "Client", doubles.UnhurriedClient),
        264,
        timed=True,
    ),
    Bug(
        "a missed generation goes unnoticed",
        "one active owner per task and generation",
        lambda patch: patch.setattr(client, "has_missed", lambda *_: False),
        310_010_011,
        exactly_once=True,
        timed=True,
    ),
    Bug("a flush outlives the lease", "no processing and no commit by a fenced member", doubles.flushes_on, 16),
    Bug("the lease is ignored", "no processing and no commit by a fenced member", doubles.lease_ignored, 13),
    Bug("offsets before the changelog", "offsets never go back", doubles.offsets_first),
    Bug(
        "a commit does not wait for what was sent ahead", "committed input has its outputs", doubles.outputs_not_awaited
    ),
    Bug(
        "outputs that were sent ahead of discarded work may arrive",
        "no processing and no commit by a fenced member",
        lambda patch: patch.setattr(committing.Commits, "discard_work", lambda _: None),
        7_057_320,
        other_decisions=True,
    ),
    Bug(
        "warm-ups without a limit",
        "warm-ups within the limit",
        lambda patch: doubles.deciding(patch, lambda _: {"max_warmup_replicas": 100}),
        9,
    ),
    Bug(
        "one standby fewer",
        "standbys as many as asked once stable",
        lambda patch: doubles.deciding(patch, lambda c: {"num_standby_replicas": max(0, c.num_standby_replicas - 1)}),
    ),
    Bug("every plan asks for a probe", "the group comes to rest", doubles.always_probing),
    Bug(
        "the probe is never asked for",
        "the group comes to rest",
        lambda patch: patch.setattr(membership.machine, "Member", doubles.DeafMember),
    ),
    Bug("a member asks again although nothing is due", "probing ends", doubles.asks_without_need),
    Bug("layouts that cost the same alternate", "a rebalance at rest moves nothing", doubles.layouts_alternate, 544),
    Bug("each leader decides differently", "decisions equal on whichever member leads", doubles.leaders_differ),
    Bug(
        "a task that becomes a standby is still processed",
        "one active owner per task and generation",
        doubles.standby_still_processed,
    ),
    Bug(
        "a task begins before it is restored",
        "a task begins with all of its state",
        lambda patch: patch.setattr(restoring, "Restorer", doubles.HastyRestorer),
    ),
    Bug(
        "neither the lease nor the generation counts",
        "each input has its results once",
        doubles.neither_lease_nor_generation,
        52,
        exactly_once=True,
    ),
    Bug(
        "unstable positions are taken",
        "each input has its results once",
        doubles.unstable_positions,
        38,
        exactly_once=True,
    ),
    Bug(
        "what is not committed is restored",
        "a task begins with all of its state",
        doubles.uncommitted_restored,
        60,
        exactly_once=True,
    ),
    Bug(
        "a restore ends at an open transaction",
        "a task begins with all of its state",
        doubles.restored_to_the_stable_end,
        1_061,
        exactly_once=True,
    ),
    Bug(
        "a store does not wait for its transaction",
        "a store follows its changelog",
        doubles.stores_before_transactions,
        exactly_once=True,
    ),
    Bug("a store does not wait for its changelog", "a store follows its changelog", doubles.stores_before_changelogs),
    Bug(
        "a task goes on with a store that was not written",
        "a store follows its changelog",
        doubles.unwritten_stores_go_on,
        10,
    ),
    Bug("offsets are committed outside", "offsets never go back", doubles.offsets_outside, exactly_once=True),
    Bug(
        "tasks go on after an aborted transaction",
        "each input has its results once",
        doubles.failed_commits_go_on,
        40,
        exactly_once=True,
    ),
    Bug(
        "a task whose store was damaged twice is never tried again",
        "the group comes to rest",
        lambda patch: patch.setattr(restoring, "Restores", doubles.ResignedRestores),
    ),
    Bug(
        "a replica that has nothing to read stays stopped",
        "the group comes to rest",
        lambda patch: patch.setattr(restoring, "Restorer", doubles.TaciturnRestorer),
        5_017_452,
        exactly_once=True,
        other_decisions=True,
    ),
    Bug(
        "offsets of a commit that was given up are committed",
        "offsets never go back",
        lambda patch: patch.setattr(loop.Loop, "engine", doubles.BlindTasks),
        75,
        exactly_once=True,
    ),
    Bug(
        "outputs are sent ahead at the end of the lease",
        "no processing and no commit by a fenced member",
        lambda patch: patch.setattr(loop.Loop, "engine", doubles.RashTasks),
        108,
    ),
    Bug(
        "a drain never ends",
        "the group comes to rest",
        lambda patch: patch.setattr(membership.engine, "Membership", doubles.PatientMembership),
    ),
    Bug(
        "the warmest process loses its replica during a drain",
        "the group comes to rest",
        lambda patch: patch.setattr(drain, "_colder_standbys", lambda *_: {}),
        5_059_200,
    ),
    Bug(
        "a member keeps the assignment of its drained predecessor",
        "a rebalance at rest moves nothing",
        lambda patch: patch.setattr(membership.engine, "Membership", doubles.HeirMembership),
        418_254,
    ),
    Bug(
        "a member keeps the assignment of a drained predecessor whose disk was lost",
        "standbys as many as asked once stable",
        lambda patch: patch.setattr(membership.engine, "Membership", doubles.NarrowMembership),
        7_032_772,
    ),
    Bug(
        "a drain ends too early",
        "a drained process has no task",
        lambda patch: patch.setattr(membership.engine, "Membership", doubles.HurriedMembership),
    ),
    Bug(
        "a restore begins again where it ends later",
        "plans have all properties",
        lambda patch: patch.setattr(assignor, "send_back", lambda *_: None),
        10,
    ),
)

RARE_BUGS = (
    Bug(
        "an assignment is taken over after a fenced commit",
        "offsets never go back",
        lambda patch: patch.setattr(loop.Loop, "engine", doubles.ForgivingTasks),
    ),
)
"""Bugs that one seed in many thousands shows; ``tests.scenarios`` has a transcript for each."""
