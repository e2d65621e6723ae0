"""Bugs to plant, one at a time: doubles that replace a real part, and the invariant that each violates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kstreams_assign.group import leader
from kstreams_assign.group.member import Member
from kstreams_assign.model import NO_PROBE_MS
from kstreams_assign.restore.loop import Restorer
from kstreams_assign.sim import checkers, committing, membership, restoring
from kstreams_assign.sim.client import Client
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.mutex import MutexState, ReportMutex
from kstreams_assign.tasks import lifecycle
from kstreams_assign.tasks.commit import CommitStep, Outcome, next_step

LATER_MS = 60_000
"""After the group has come to rest, within the quiet time."""


@dataclass(frozen=True)
class Bug:
    """``plant`` takes pytest's monkeypatch; ``first``: seeds from here on soon show the bug."""

    name: str
    invariant: str
    plant: Callable[..., None]
    first: int = 0


class CarelessMutex(ReportMutex):
    """The cleaner runs also while members report."""

    def try_clean(self) -> bool:
        self._state = MutexState(cleaning=True)
        return True


class BoastfulSums(OffsetSums):
    """Reports dormant tasks also without the mutex."""

    def report_kept(self, assigned):  # noqa: ARG002 - the double's point
        return self.report(owned_only=False)


class HastyRestorer(Restorer):
    """Hands a task back as soon as it has read any record of it."""

    def _hand_back_restored(self) -> None:
        for job in [job for job in self._jobs.values() if job.progress is not None]:
            job.progress = replace(
                job.progress,
                partitions={name: replace(at, end=at.position) for name, at in job.progress.partitions.items()},
            )
        super()._hand_back_restored()


class DeafMember(Member):
    """Never asks for the probe that its assignment announced."""

    def _assigned(self, event, before, now_ms):
        actions = super()._assigned(event, before, now_ms)
        self.rejoin_at_ms = NO_PROBE_MS if self.rejoin_at_ms else 0
        return actions

    _REACTIONS = {**Member._REACTIONS, membership.machine.Assigned: _assigned}  # noqa: RUF012


class TrustingClient(Client):
    """The lease counts from when an answer is read, not from when the request was sent."""

    def _beaten(self, generation, sent_ms, error) -> None:  # noqa: ARG002 - the double's point
        super()._beaten(generation, self._timeline.now_ms, error)

    def _synced(self, answer, sent_ms) -> None:  # noqa: ARG002 - the double's point
        super()._synced(answer, self._timeline.now_ms)


def asks_without_need(monkeypatch):
    """A member asks for another rebalance, although none is due."""
    real = membership.Membership.adopt

    def wrong(self, generation, adopted):
        real(self, generation, adopted)
        self._process.run.later(LATER_MS, self.rejoin, "nothing")

    monkeypatch.setattr(membership.Membership, "adopt", wrong)


def flushes_on(monkeypatch):
    """Records that are being sent are still sent when the lease ends."""
    real = committing.Commits._flush

    def wrong(self, number, out):
        with monkeypatch.context() as patch:
            patch.setattr(committing.Commits, "_lease_left_ms", 1)
            real(self, number, out)

    monkeypatch.setattr(committing.Commits, "_flush", wrong)


def old_owner_ignored(monkeypatch):
    """Tasks that another member still owns are assigned at once."""
    real = leader.hand_out
    monkeypatch.setattr(leader, "hand_out", lambda processes, _owners, *rest: real(processes, {}, *rest))


def lease_ignored(monkeypatch):
    monkeypatch.setattr(committing.Commits, "_lease_left_ms", 1)


def offsets_first(monkeypatch):
    order = [CommitStep.LEASE, CommitStep.OFFSETS, CommitStep.PRODUCE, CommitStep.FLUSH, CommitStep.STORE]

    def wrong(step, outcome):
        if outcome is not Outcome.OK:
            return next_step(step, outcome)
        return CommitStep.DONE if step is order[-1] else order[order.index(step) + 1]

    monkeypatch.setattr(committing, "next_step", wrong)


def deciding(monkeypatch, settings):
    """Decide with other settings than configured."""

    def wrong(view, question):
        return leader.decide(view, replace(question, config=replace(question.config, **settings(question.config))))

    replace_decide(monkeypatch, wrong)


def replace_decide(monkeypatch, wrong):
    """Replace the decision, for the leader and for the checker that decides again."""
    monkeypatch.setattr(membership, "decide", wrong)
    monkeypatch.setattr(checkers, "decide", wrong)


def always_probing(monkeypatch):
    real = leader.choose_assignor

    def wrong(*about, **more):
        choice, assign = real(*about, **more)
        return choice, lambda cluster, config: replace(assign(cluster, config), probing=True)

    monkeypatch.setattr(leader, "choose_assignor", wrong)


def leaders_differ(monkeypatch):
    """The assignor depends on the leader."""

    def wrong(view, question):
        own = "sticky" if question.leader == min(view.processes) else question.assignor
        return leader.decide(view, replace(question, assignor=own))

    replace_decide(monkeypatch, wrong)


def standby_still_processed(monkeypatch):
    """A task that becomes a standby is still processed."""
    table = dict(lifecycle.TRANSITIONS)
    state, steps = table[lifecycle.TaskState.RUNNING, lifecycle.TaskEvent.MADE_COPY]
    table[lifecycle.TaskState.RUNNING, lifecycle.TaskEvent.MADE_COPY] = state, steps[1:]
    monkeypatch.setattr(lifecycle, "TRANSITIONS", table)


BUGS = (
    Bug(
        "the cleaner ignores the mutex",
        "no state deleted under a reported lag",
        lambda patch: patch.setattr(membership, "ReportMutex", CarelessMutex),
        12,
    ),
    Bug(
        "dormant state is reported without the mutex",
        "no state deleted under a reported lag",
        lambda patch: patch.setattr(membership, "OffsetSums", BoastfulSums),
        250,
    ),
    Bug(
        "the new owner does not wait for the old one", "one active owner per task and generation", old_owner_ignored, 3
    ),
    Bug(
        "the lease counts from when an answer is read",
        "no processing and no commit by a fenced member",
        lambda patch: patch.setattr(membership, "Client", TrustingClient),
        120,
    ),
    Bug("a flush outlives the lease", "no processing and no commit by a fenced member", flushes_on, 10),
    Bug("the lease is ignored", "no processing and no commit by a fenced member", lease_ignored, 13),
    Bug("offsets before the changelog", "offsets never go back", offsets_first),
    Bug(
        "warm-ups without a limit",
        "warm-ups within the limit",
        lambda patch: deciding(patch, lambda _: {"max_warmup_replicas": 100}),
        9,
    ),
    Bug(
        "one standby fewer",
        "standbys as many as asked once stable",
        lambda patch: deciding(patch, lambda c: {"num_standby_replicas": max(0, c.num_standby_replicas - 1)}),
    ),
    Bug("every plan asks for a probe", "the group comes to rest", always_probing),
    Bug(
        "the probe is never asked for",
        "the group comes to rest",
        lambda patch: patch.setattr(membership.machine, "Member", DeafMember),
    ),
    Bug("a member asks again although nothing is due", "probing ends", asks_without_need),
    Bug("each leader decides differently", "decisions equal on whichever member leads", leaders_differ),
    Bug(
        "a task that becomes a standby is still processed",
        "one active owner per task and generation",
        standby_still_processed,
    ),
    Bug(
        "a task begins before it is restored",
        "a task begins with all of its state",
        lambda patch: patch.setattr(restoring, "Restorer", HastyRestorer),
    ),
)
