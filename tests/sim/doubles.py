"""Doubles of real parts, each with a mistake, and functions that put one in place of the real part."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import ClassVar

from kstreams_assign.assign.least_movement import assignor
from kstreams_assign.assign.previous_state import PreviousState
from kstreams_assign.assign.standby import spread
from kstreams_assign.assign.standby import table as standby_table
from kstreams_assign.assign.standby.limits import StandbyLimits
from kstreams_assign.engine import commits as engine_commits
from kstreams_assign.engine import membership as engine_membership
from kstreams_assign.engine.restoring import Restores
from kstreams_assign.engine.task_events import CommitEnded
from kstreams_assign.engine.tasks import Tasks
from kstreams_assign.group import leader
from kstreams_assign.group.member import Member
from kstreams_assign.model import NO_PROBE_MS
from kstreams_assign.restore.loop import Restorer
from kstreams_assign.restore.ports import Bounds
from kstreams_assign.sim import committing, loop, membership, outputs, producer, restoring, transactions
from kstreams_assign.sim.checkers import decisions
from kstreams_assign.sim.client import Client
from kstreams_assign.sim.coordinator import Coordinator, Error
from kstreams_assign.sim.disk import Reader
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.mutex import MutexState, ReportMutex
from kstreams_assign.tasks import lifecycle
from kstreams_assign.tasks.commit import CommitEnd, CommitStep, Outcome, next_step

LATER_MS = 60_000
"""After the group has come to rest, within the quiet time."""


def decide_otherwise(patch) -> None:
    """Restores go on where they are, and are slower; standbys are placed for the loss of a process first."""
    patch.setattr(PreviousState, "restarts", lambda *_: False)
    patch.setattr(assignor, "KEPT_UP_TO", 1)
    patch.setattr(standby_table, "PLACES_MAX", 0)
    patch.setattr(StandbyLimits, "_is_even", lambda *_: True)
    patch.setattr(restoring, "Reader", WastefulReader)


class WastefulReader(Reader):
    """Gives each partition the same share of the bandwidth, also one that needs less."""

    def _shares(self, records):
        unread = self._unread()
        return [(partition, min(needed, records // len(unread))) for partition, needed in unread.items()]


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


class TaciturnRestorer(Restorer):
    """Reports no progress of a task that has another purpose now and has read nothing since."""

    def _repurpose(self, task, purpose):
        job = self._jobs.get(task)
        reported = None if job is None else job.reported
        known = super()._repurpose(task, purpose)
        if job is not None:
            job.reported = reported
        return known


class ResignedRestores(Restores):
    """Never tries a stopped task again."""

    def due_ms(self):
        return None


class DeafMember(Member):
    """Never asks for the probe that its assignment announced."""

    def _assigned(self, event, before, now_ms):
        actions = super()._assigned(event, before, now_ms)
        self.rejoin_at_ms = NO_PROBE_MS if self.rejoin_at_ms else 0
        return actions

    _REACTIONS = {**Member._REACTIONS, membership.machine.Assigned: _assigned}  # noqa: RUF012


class UnhurriedClient(Client):
    """The lease lasts for the session, also where the member has not joined a rebalance in time."""

    @property
    def lease_left_ms(self):
        self._lease.settled_ms = self._timeline.now_ms
        return super().lease_left_ms


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


def outputs_not_awaited(monkeypatch):
    """A commit does not wait for the outputs that were sent ahead of it."""
    monkeypatch.setattr(outputs.Sent, "commit_waits", False)


def old_owner_ignored(monkeypatch):
    """Tasks that another member still owns are assigned at once."""
    real = leader.hand_out
    monkeypatch.setattr(leader, "hand_out", lambda processes, _owners, *rest: real(processes, {}, *rest))


def lease_ignored(monkeypatch):
    monkeypatch.setattr(committing.Commits, "_lease_left_ms", 1)


def offsets_first(monkeypatch):
    order = [CommitStep.LEASE, CommitStep.OFFSETS, CommitStep.PRODUCE, CommitStep.FLUSH, CommitStep.STORE]

    def wrong(step, outcome, *, exactly_once):
        if outcome is not Outcome.OK:
            return next_step(step, outcome, exactly_once=exactly_once)
        return CommitEnd.DONE if step is order[-1] else order[order.index(step) + 1]

    monkeypatch.setattr(engine_commits, "next_step", wrong)


def deciding(monkeypatch, settings):
    """Decide with other settings than configured."""

    def wrong(_view, question):
        return replace(question, config=replace(question.config, **settings(question.config)))

    replace_question(monkeypatch, wrong)


def replace_question(monkeypatch, wrong):
    """Replace what is decided about, for the leader and for the checker that decides again."""

    def decide(view, question):
        return leader.decide(view, wrong(view, question))

    def place_tasks(view, question):
        return leader.place_tasks(view, wrong(view, question))

    monkeypatch.setattr(membership, "decide", decide)
    monkeypatch.setattr(decisions, "place_tasks", place_tasks)


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
        return replace(question, assignor=own)

    replace_question(monkeypatch, wrong)


def standby_still_processed(monkeypatch):
    """A task that becomes a standby is still processed."""
    table = dict(lifecycle.TRANSITIONS)
    state, steps = table[lifecycle.TaskState.RUNNING, lifecycle.TaskEvent.MADE_COPY]
    table[lifecycle.TaskState.RUNNING, lifecycle.TaskEvent.MADE_COPY] = state, steps[1:]
    monkeypatch.setattr(lifecycle, "TRANSITIONS", table)


def neither_lease_nor_generation(monkeypatch):
    """It is never asked whether a member is still in the group. Either of the two is enough, exactly once."""
    lease_ignored(monkeypatch)
    monkeypatch.setattr(Coordinator, "transactional_commit", lambda *_: Error.NONE)


def unstable_positions(monkeypatch):
    """Positions are read although a transaction is about to commit others."""
    monkeypatch.setattr(transactions.Transactions, "are_stable", lambda *_: True)


def uncommitted_restored(monkeypatch):
    """The restore reads what is not committed."""

    def wrong(self):
        ends = self._logs.changelog_ends
        return {name: end - at for name, at in self._at.items() if at < (end := ends[name])}

    monkeypatch.setattr(Reader, "_unread", wrong)


def layouts_alternate(monkeypatch):
    """Standbys are placed again, whether or not that is better."""
    costs = count(0, -1)
    monkeypatch.setattr(spread, "cost", lambda _: (next(costs),))


def restored_to_the_stable_end(monkeypatch):
    """The restore ends where what is committed ends, though a transaction is open."""

    def wrong(self, partitions):
        return {partition: Bounds(0, self._logs.readable[partition]) for partition in partitions}

    monkeypatch.setattr(Reader, "bounds", wrong)


def stores_before_transactions(monkeypatch):
    """Stores are written before their transaction is committed."""
    commit_otherwise(
        monkeypatch,
        {
            CommitStep.FLUSH: CommitStep.STORE,
            CommitStep.STORE: CommitStep.OFFSETS,
            CommitStep.TRANSACTION: CommitEnd.DONE,
        },
    )


def stores_before_changelogs(monkeypatch):
    """Stores are written before their changelog records are acknowledged."""
    commit_otherwise(
        monkeypatch,
        {
            CommitStep.PRODUCE: CommitStep.STORE,
            CommitStep.STORE: CommitStep.FLUSH,
            CommitStep.FLUSH: CommitStep.OFFSETS,
        },
    )


def commit_otherwise(monkeypatch, following):
    """Let other steps follow in a commit where these succeed."""

    def wrong(step, outcome, *, exactly_once):
        right = next_step(step, outcome, exactly_once=exactly_once)
        return following.get(step, right) if outcome is Outcome.OK else right

    monkeypatch.setattr(engine_commits, "next_step", wrong)


def offsets_outside(monkeypatch):
    """Offsets are committed outside the transaction."""

    def wrong(self, offsets, take):
        self._process.membership.client.commit(offsets, take)

    monkeypatch.setattr(producer.Producer, "send_offsets", wrong)


def failed_commits_go_on(monkeypatch):
    """Tasks whose transaction was aborted go on from what they had processed."""

    def wrong(self, event, now_ms):
        return Tasks._commit_ended(self, replace(event, failed=()), now_ms)

    class Careless(Tasks):
        _REACTIONS: ClassVar = {**Tasks._REACTIONS, CommitEnded: wrong}

    monkeypatch.setattr(loop.Loop, "engine", Careless)


def unwritten_stores_go_on(monkeypatch):
    """A task goes on although its store could not be written."""

    class Careless(engine_commits.Commits):
        def _end(self, end):
            self.unwritten = frozenset()
            return super()._end(end)

    monkeypatch.setattr(engine_commits, "Commits", Careless)


class RashTasks(Tasks):
    """Sends outputs ahead also at the end of the lease."""

    def may_send_ahead(self, lease_left_ms):  # noqa: ARG002 - the double's point
        return True


class ForgivingTasks(Tasks):
    """Takes an assignment over after a commit was fenced, and goes on behind what that has lost."""

    def _adopt(self, event, now_ms):
        self._fenced = False
        return super()._adopt(event, now_ms)

    _REACTIONS: ClassVar = {**Tasks._REACTIONS, membership.machine.Adopt: _adopt}


class BlindTasks(Tasks):
    """Commits partition times also where a commit was given up, with the offsets that it began with."""

    def _close_all(self):
        self._stop = replace(self._stop, failed=False)
        return super()._close_all()


class PatientMembership(engine_membership.Membership):
    """Never ends a drain."""

    def _drain_on(self, adopted):  # noqa: ARG002 - the double's point
        return []


class HeirMembership(engine_membership.Membership):
    """Keeps the empty assignment of a drained predecessor."""

    def _received(self, event, now_ms):
        if self._drain_reported:
            return super()._received(event, now_ms)
        return super()._received(replace(event, adopted=replace(event.adopted, draining=False)), now_ms)

    _REACTIONS: ClassVar = {**engine_membership.Membership._REACTIONS, engine_membership.Received: _received}


class NarrowMembership(engine_membership.Membership):
    """Keeps the empty assignment of a drained predecessor that had another process id."""

    def _received(self, event, now_ms):
        return super()._received(replace(event, adopted=replace(event.adopted, others_drain=False)), now_ms)

    _REACTIONS: ClassVar = {**engine_membership.Membership._REACTIONS, engine_membership.Received: _received}


class HurriedMembership(engine_membership.Membership):
    """Ends a drain with the first assignment after it was reported."""

    def _drain_on(self, adopted):  # noqa: ARG002 - the double's point
        return [engine_membership.Drained()]
