"""The machine of the supervisor: what each end, request and turn of the clock leads to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreams_assign.processes.supervision import (
    Ask,
    Kill,
    Limits,
    Outcome,
    Request,
    Start,
    State,
    Supervision,
)

LIMITS = Limits(close_ms=60_000, drain_ms=600_000)


def begun(count=2):
    supervision = Supervision(count, LIMITS)
    assert supervision.begin(0) == [Start(number) for number in range(count)]
    return supervision


def stopped(supervision, now_ms, request=Request.CLOSE):
    """Return what SIGTERM or Ctrl-C leads to."""
    return supervision.end(request, now_ms, is_stop=True)


def signalled(supervision, request, now_ms):
    """Return what SIGUSR1 (drain) or SIGHUP (restart) leads to."""
    return supervision.end(request, now_ms, is_stop=False)


def asked(request, count=2):
    return [Ask(number, request) for number in range(count)]


def states(supervision):
    return [process.state for process in supervision.states()]


def test_a_process_that_fails_is_started_again_after_growing_rests():
    supervision, now_ms = begun(), 5
    for rest_ms in (1_000, 2_000, 4_000):
        assert supervision.ended(1, Outcome.FAILED, now_ms) == []
        assert states(supervision) == [State.RUNNING, State.RESTING]
        assert supervision.states()[1].restart_at_ms == now_ms + rest_ms
        assert supervision.turn(now_ms + rest_ms - 1) == []
        now_ms += rest_ms
        assert supervision.turn(now_ms) == [Start(1)]
        assert supervision.turn(now_ms) == []
    assert [process.restarts for process in supervision.states()] == [0, 3]


def test_the_rest_is_short_again_after_a_long_run():
    supervision = begun()
    supervision.ended(0, Outcome.FAILED, 10)
    supervision.turn(1_010)
    supervision.ended(0, Outcome.FAILED, 301_010)
    assert supervision.states()[0].restart_at_ms == 302_010


def test_a_process_that_is_done_is_not_started_again_and_the_last_one_ends_all():
    supervision = begun()
    assert supervision.ended(0, Outcome.DONE, 10) == []
    assert supervision.turn(1_000_000) == []
    assert states(supervision) == [State.ENDED, State.RUNNING]
    assert not supervision.is_over
    supervision.ended(1, Outcome.DONE, 20)
    assert supervision.is_over
    assert not supervision.is_ending


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.SHUT_DOWN])
def test_a_refused_setting_and_a_shutdown_of_the_application_end_all(outcome):
    supervision = begun(3)
    supervision.ended(2, Outcome.FAILED, 5)
    assert supervision.ended(0, outcome, 10) == [Ask(1, Request.CLOSE)]
    assert supervision.turn(2_000) == [], "the one that rests is not started again"
    supervision.ended(1, Outcome.DONE, 20)
    assert supervision.is_over
    assert supervision.unclean == ()


def test_a_request_to_end_reaches_all_that_run_at_once():
    supervision = begun(3)
    supervision.ended(1, Outcome.FAILED, 5)
    assert stopped(supervision, 10) == [Ask(0, Request.CLOSE), Ask(2, Request.CLOSE)]
    assert states(supervision) == [State.RUNNING, State.ENDED, State.RUNNING]
    supervision.ended(0, Outcome.DONE, 20)
    supervision.ended(2, Outcome.DONE, 30)
    assert supervision.is_over
    assert supervision.unclean == ()


def test_a_process_that_does_not_close_in_time_is_killed_once():
    supervision = begun()
    stopped(supervision, 10)
    supervision.ended(0, Outcome.DONE, 20)
    assert supervision.turn(60_009) == []
    assert supervision.turn(60_010) == [Kill(1)]
    assert supervision.turn(60_011) == []
    supervision.ended(1, Outcome.FAILED, 60_020)
    assert supervision.is_over
    assert supervision.unclean == (1,)


def test_a_drain_that_takes_too_long_becomes_a_close_and_then_a_kill():
    supervision = begun()
    assert signalled(supervision, Request.DRAIN, 0) == [Ask(0, Request.DRAIN), Ask(1, Request.DRAIN)]
    supervision.ended(0, Outcome.FAILED, 100)
    assert supervision.turn(599_999) == []
    assert supervision.turn(600_000) == [Ask(1, Request.CLOSE)]
    assert supervision.turn(660_000) == [Kill(1)]
    supervision.ended(1, Outcome.FAILED, 660_001)
    assert supervision.unclean == (0, 1)


@pytest.mark.parametrize("request_of_sigterm", Request)
def test_the_second_sigterm_kills_what_still_runs(request_of_sigterm):
    supervision = begun()
    assert stopped(supervision, 0, request_of_sigterm) == asked(request_of_sigterm)
    supervision.ended(0, Outcome.DONE, 5)
    assert stopped(supervision, 1_000, request_of_sigterm) == [Kill(1)]
    assert stopped(supervision, 1_001, request_of_sigterm) == []


@pytest.mark.parametrize("request_of_sigterm", Request)
def test_a_stop_that_is_delivered_twice_is_one_stop(request_of_sigterm):
    supervision, first_ms = begun(), 70
    assert stopped(supervision, first_ms, request_of_sigterm) == asked(request_of_sigterm)
    for later_ms in (0, 5, 999):
        assert stopped(supervision, first_ms + later_ms, request_of_sigterm) == []
    assert stopped(supervision, first_ms + 1_500, request_of_sigterm) == [Kill(0), Kill(1)]


def test_stops_in_quick_succession_do_not_put_the_kill_off():
    supervision = begun()
    stopped(supervision, 0)
    assert [stopped(supervision, now_ms) for now_ms in (400, 800)] == [[], []]
    assert stopped(supervision, 1_200) == [Kill(0), Kill(1)]


def test_a_stop_that_is_delivered_twice_after_another_signal_does_not_kill():
    supervision = begun()
    signalled(supervision, Request.DRAIN, 0)
    assert stopped(supervision, 5_000) == asked(Request.CLOSE)
    assert stopped(supervision, 5_005) == []
    assert stopped(supervision, 6_000) == [Kill(0), Kill(1)]


@pytest.mark.parametrize("before", [Request.DRAIN, Request.RESTART])
def test_the_first_sigterm_after_another_signal_closes_and_only_the_second_kills(before):
    supervision = begun()
    assert signalled(supervision, before, 0) == asked(before)
    assert stopped(supervision, 10) == asked(Request.CLOSE)
    assert supervision.turn(60_009) == []
    assert stopped(supervision, 60_009) == [Kill(0), Kill(1)]


def test_the_first_sigterm_with_drain_or_restart_does_not_kill_after_the_same_request():
    for request in (Request.DRAIN, Request.RESTART):
        supervision = begun()
        signalled(supervision, request, 0)
        assert stopped(supervision, 10, request) == []
        assert stopped(supervision, 1_010, request) == [Kill(0), Kill(1)]


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.SHUT_DOWN])
def test_the_first_sigterm_after_the_supervisors_own_end_does_not_kill(outcome):
    supervision = begun()
    assert supervision.ended(1, outcome, 10) == [Ask(0, Request.CLOSE)]
    assert stopped(supervision, 20) == []
    assert supervision.turn(60_009) == []
    assert stopped(supervision, 60_009) == [Kill(0)]


def test_the_first_sigterm_after_a_drain_that_took_too_long_does_not_kill():
    supervision = begun()
    signalled(supervision, Request.DRAIN, 0)
    assert supervision.turn(600_000) == asked(Request.CLOSE)
    assert stopped(supervision, 600_020) == []
    assert stopped(supervision, 601_020) == [Kill(0), Kill(1)]


def test_a_request_for_a_slower_end_changes_nothing():
    supervision = begun()
    stopped(supervision, 0)
    for request in (Request.DRAIN, Request.RESTART):
        assert signalled(supervision, request, 10) == []
    assert supervision.turn(60_000) == [Kill(0), Kill(1)]
    assert signalled(supervision, Request.RESTART, 60_001) == []


EVENTS = st.one_of(
    st.tuples(st.just("ended"), st.integers(0, 2), st.sampled_from(Outcome)),
    st.tuples(st.just("end"), st.sampled_from(Request), st.booleans()),
    st.tuples(st.just("turn"), st.integers(0, 100_000)),
)


@given(st.lists(EVENTS, max_size=30))
def test_whatever_happens_it_starts_only_what_does_not_run_and_asks_only_what_runs_and_comes_to_an_end(events):
    supervision, now_ms, running = begun(3), 0, {0, 1, 2}

    def carry_out(effects):
        for effect in effects:
            if isinstance(effect, Start):
                assert effect.number not in running
                assert not supervision.is_ending
                running.add(effect.number)
            else:
                assert effect.number in running

    for kind, *facts in events:
        if kind == "ended" and facts[0] in running:
            running.remove(facts[0])
            carry_out(supervision.ended(*facts, now_ms))
        elif kind == "end":
            carry_out(supervision.end(facts[0], now_ms, is_stop=facts[1]))
        elif kind == "turn":
            now_ms += facts[0]
            carry_out(supervision.turn(now_ms))
        assert {p.number for p in supervision.states() if p.state is State.RUNNING} == running
    carry_out(stopped(supervision, now_ms))
    for number in list(running):
        running.remove(number)
        carry_out(supervision.ended(number, Outcome.DONE, now_ms))
    assert supervision.is_over
