"""The mutex itself: who gets in, how long a hold lasts, and the lock around the decisions with real threads.

Every order of steps of members and cleaner is walked by ``test_interleavings``.
"""

from __future__ import annotations

import threading

import pytest

from kstreams_assign.state.mutex import MutexState, ReportMutex, hold_limit_ms

MEMBERS = ("m1", "m2")
FREE = MutexState()


def test_several_members_report_at_once_and_each_lets_go_for_itself():
    mutex = ReportMutex()
    assert mutex.try_report("m1")
    assert mutex.try_report("m2")
    mutex.release_report("m1")
    assert not mutex.try_clean()
    mutex.release_report("m2")
    assert mutex.try_clean()


def test_a_member_that_joins_again_holds_it_once():
    mutex = ReportMutex()
    assert mutex.try_report("m1")
    assert mutex.try_report("m1")
    mutex.release_report("m1")
    mutex.release_report("m1")
    assert mutex.try_clean()


def test_while_the_cleaner_runs_a_report_and_a_second_cleaner_are_refused_and_a_release_changes_nothing():
    mutex = ReportMutex()
    assert mutex.try_clean()
    assert not mutex.try_report("m1")
    assert not mutex.try_clean()
    mutex.release_report("m1")
    assert not mutex.try_report("m1")
    mutex.end_clean()
    assert mutex.try_report("m1")


def test_threads_never_meet_a_cleaner_inside():
    """The lock around the decisions, with real threads: everyone notes who is inside while being inside."""
    mutex, inside, clashes = ReportMutex(), [], []

    def report(name: str) -> None:
        for _ in range(2_000):
            if mutex.try_report(name):
                inside.append(name)
                clashes.extend(["cleaner"] if "cleaner" in inside else [])
                inside.remove(name)
                mutex.release_report(name)

    def clean() -> None:
        for _ in range(2_000):
            if mutex.try_clean():
                inside.append("cleaner")
                clashes.extend(name for name in list(inside) if name != "cleaner")
                inside.remove("cleaner")
                mutex.end_clean()

    threads = [threading.Thread(target=report, args=(name,)) for name in MEMBERS] + [threading.Thread(target=clean)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (clashes, inside, mutex.state) == ([], [], FREE)


@pytest.fixture
def bounded(clock):
    return ReportMutex(clock_ms=clock, hold_ms=1_000)


def test_a_hold_ends_when_the_cleaner_wants_in_and_the_rebalance_has_taken_longer_than_it_may(bounded, clock):
    assert bounded.try_report("m1")
    clock.now_ms += 999
    assert not bounded.try_clean()
    clock.now_ms += 1
    assert bounded.state.reporting == {"m1"}  # the cleaner has not asked for it yet
    assert bounded.try_clean()
    bounded.end_clean()
    assert not bounded.release_report("m1"), "its report was not protected"


def test_a_join_tried_again_and_again_is_counted_from_its_first_try(bounded, clock):
    for _ in range(4):
        assert bounded.try_report("m1")
        clock.now_ms += 250
    assert bounded.try_clean()


def test_a_hold_taken_again_after_the_cleaner_lasts_as_long_as_the_first(bounded, clock):
    bounded.try_report("m1")
    clock.now_ms += 1_000
    assert bounded.try_clean()
    assert not bounded.try_report("m1")
    bounded.end_clean()
    assert bounded.try_report("m1")
    assert not bounded.try_clean()
    assert bounded.release_report("m1")


def test_a_member_within_its_limit_blocks_the_cleaner_and_no_hold_is_lost(bounded, clock):
    bounded.try_report("m1")
    clock.now_ms += 600
    bounded.try_report("m2")
    clock.now_ms += 600
    assert not bounded.try_clean()
    assert bounded.release_report("m1")
    assert bounded.release_report("m2")


def test_release_says_whether_it_was_held(bounded):
    assert not bounded.release_report("m1")
    assert bounded.try_report("m1")
    assert bounded.release_report("m1")
    assert not bounded.release_report("m1")


def test_a_rebalance_takes_all_joins_and_then_all_syncs():
    assert hold_limit_ms(300_000) == 600_000
