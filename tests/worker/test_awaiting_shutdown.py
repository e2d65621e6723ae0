"""A classic member that asks all to end, as its process ends: how long it stays, and what it answers for its work."""

from __future__ import annotations

import threading
import time

import pytest

from kstreams_assign.engine.membership import SHUTTING_DOWN, ShutdownAsked
from kstreams_assign.group.dialects import APACHE, MemberReport
from kstreams_assign.group.values import ErrorCode
from kstreams_assign.worker import membership
from tests.worker.test_membership_mutex import PATIENCE_S, Case, assign, case, info  # noqa: F401  # the fixture


@pytest.fixture
def silent(case: Case) -> Case:  # noqa: F811
    """A member whose tasks' side answers no order."""
    case.commit_now = lambda: None  # type: ignore[method-assign]
    return case


def works() -> bool:
    return True


def has_ended() -> bool:
    return False


def join(case: Case) -> None:  # noqa: F811
    case.play(case.report)
    case.play(assign)
    case.let_go()


def test_a_member_that_does_not_ask_awaits_nothing_and_answers_nothing(silent: Case) -> None:
    join(silent)
    silent.membership.rejoin("its state is warm")
    silent.membership.await_shutdown(silent.thread, has_ended)
    assert silent.thread.is_alive()
    assert silent.joins == ["first join"]


def test_a_request_during_a_join_is_in_the_next_one_although_the_work_has_ended(silent: Case) -> None:
    silent.play(silent.report)
    silent.membership.handle(ShutdownAsked())
    waiting = threading.Thread(target=silent.membership.await_shutdown, args=(silent.thread, has_ended))
    waiting.start()
    silent.play(assign)
    silent.until_joining(SHUTTING_DOWN)
    silent.play(silent.report)
    report = APACHE.read_report(silent.user_data)
    assert isinstance(report, MemberReport)
    assert report.error_code == ErrorCode.SHUTDOWN_REQUESTED
    assert waiting.is_alive(), "no assignment has answered"
    silent.play(lambda member: member.assigned(2, [], info(error_code=ErrorCode.SHUTDOWN_REQUESTED)))
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()


def test_work_that_goes_on_answers_for_itself(silent: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "SHUTDOWN_ASKED_WITHIN_S", 0.2)
    join(silent)
    silent.membership.handle(ShutdownAsked())
    silent.membership.await_shutdown(silent.thread, works)
    assert silent.thread.is_alive(), "the time is over, and the member has not joined"
    assert silent.joins == ["first join"]


def test_a_member_that_has_ended_awaits_nothing(silent: Case) -> None:
    join(silent)
    silent.membership.handle(ShutdownAsked())
    silent.membership.close()
    silent.thread.join(PATIENCE_S)
    began_s = time.monotonic()
    silent.membership.await_shutdown(silent.thread, has_ended)
    assert time.monotonic() - began_s < membership.SHUTDOWN_ASKED_WITHIN_S / 2
    assert silent.error is None
