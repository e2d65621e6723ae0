"""Bugs to plant in a streams group, one at a time, and the invariant that each violates.

Those of the engine replace ``StreamsMembership`` by a copy with one other rule.
"""

from __future__ import annotations

from typing import ClassVar

from kstreams_assign.engine import streams_membership as engine
from kstreams_assign.engine.streams_errors import AGAIN, FENCED
from kstreams_assign.engine.streams_membership import StreamsMembership
from kstreams_assign.engine.tasks import Tasks
from kstreams_assign.group.member import Adopt, TasksReleased
from kstreams_assign.sim import loop
from kstreams_assign.sim.broker import ignored
from kstreams_assign.sim.checkers.streams import ReportsWhatRuns
from kstreams_assign.sim.streams_coordinator import StreamsCoordinator
from kstreams_assign.sim.streams_membership import StreamsClient
from tests.sim.bugs import Bug


class GenerousMember(StreamsMembership):
    """Reports a revoked task as released while it still runs."""

    @property
    def _held(self):
        return self.assigned


class ReticentMember(StreamsMembership):
    """Does not report what it has released."""

    def _released(self, event, now_ms):
        effects = super()._released(event, now_ms)
        self._owes_report, self._reported = False, self._held
        return effects

    _REACTIONS: ClassVar = {**StreamsMembership._REACTIONS, TasksReleased: _released}


class TrustingMember(StreamsMembership):
    """Does not look its assignment up after the answer with it was lost."""

    def _heed_tasks(self, response, now_ms):
        self._unsure, self._look_ms = False, None
        return super()._heed_tasks(response, now_ms)


class UnhurriedMember(StreamsMembership):
    """Its lease lasts for the session, also where it has not released tasks in time."""

    def lease_ends_ms(self, session_timeout_ms):
        return None if self.lease.answered_ms is None else self.lease.answered_ms + session_timeout_ms


class RashTasks(Tasks):
    """Releases a task that failed during a commit while its records may still arrive."""

    def _adopt(self, event, now_ms):
        self._left_commit.clear()
        return super()._adopt(event, now_ms)

    _REACTIONS: ClassVar = {**Tasks._REACTIONS, Adopt: _adopt}


def member(wrong):
    """Return what plants this member."""
    return lambda patch: patch.setattr(engine, "StreamsMembership", wrong)


def fencing_ignored(monkeypatch):
    """A member that is fenced sends its heartbeat again."""
    monkeypatch.setattr(engine, "AGAIN", AGAIN | FENCED)


def reports_unread(monkeypatch):
    """As ``GenerousMember``, without the checker that reads reports: the one of owners finds it later."""
    member(GenerousMember)(monkeypatch)
    monkeypatch.setattr(ReportsWhatRuns, "answered", lambda *_: None)


def times_in_any_epoch(monkeypatch):
    """The partition times of tasks that leave are committed under whatever epoch the member has by then."""
    monkeypatch.setattr(StreamsClient, "commit_once", lambda client, offsets: client.commit(offsets, ignored))


def owners_ignored(monkeypatch):
    """The coordinator gives a task to its new owner at once."""
    monkeypatch.setattr(StreamsCoordinator, "_unreleased", lambda *_: frozenset())


STREAMS_BUGS = (
    Bug("a task is reported as released while it runs", "a report names all tasks that run", member(GenerousMember)),
    Bug(
        "a task is reported as released while it runs, and no checker reads reports",
        "one active owner per task",
        reports_unread,
        6,
    ),
    Bug("a release is not reported", "the group comes to rest", member(ReticentMember)),
    Bug("an assignment is not looked up", "the group comes to rest", member(TrustingMember), 62),
    Bug("fencing is ignored", "the group comes to rest", fencing_ignored),
    Bug(
        "a task that failed during a commit is released before its end",
        "a task begins with all of its state",
        lambda patch: patch.setattr(loop.Loop, "engine", RashTasks),
        12_161,
    ),
    Bug(
        "the lease ignores the time to release tasks",
        "no processing and no commit by a fenced member",
        member(UnhurriedMember),
        9_602,
        timed=True,
    ),
    Bug(
        "partition times are committed in a later epoch",
        "offsets never go back",
        times_in_any_epoch,
        1_000,
        exactly_once=True,
    ),
    Bug("the coordinator does not wait for the old owner", "a task is given on once it is released", owners_ignored),
)
