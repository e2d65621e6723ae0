"""Recurring calls against a list that is searched each time, and the rules of Java's ``PunctuationQueue``."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign.tasks.punctuation import Punctuation, PunctuationQueue
from tests.samples import examples


def nothing() -> None:
    """What is called is of no interest here."""


@dataclass
class Slow:
    """A punctuation of the twin; ``since`` orders those that are due together."""

    due_ms: int
    interval_ms: int
    since: int
    cancelled: bool = False


class SlowQueue:
    """The same rules on a list: each time is counted up an interval after the other."""

    def __init__(self) -> None:
        self.entries: list[Slow] = []
        self.pushed = 0

    def schedule(self, due_ms: int, interval_ms: int) -> Slow:
        self.pushed += 1
        self.entries.append(Slow(due_ms, interval_ms, self.pushed))
        return self.entries[-1]

    def advance(self, now_ms: int) -> list[Slow]:
        made: list[Slow] = []
        while due := [each for each in self.entries if not each.cancelled and each.due_ms <= now_ms]:
            first = min(due, key=lambda each: (each.due_ms, each.since))
            made.append(first)
            while first.due_ms <= now_ms:
                first.due_ms += first.interval_ms
            self.pushed += 1
            first.since = self.pushed
        return made

    def due_ms(self) -> int | None:
        return min((each.due_ms for each in self.entries if not each.cancelled), default=None)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("schedule"), st.integers(0, 30), st.integers(1, 9)),
        st.tuples(st.just("advance"), st.integers(0, 25), st.just(0)),
        st.tuples(st.just("cancel"), st.integers(0, 9), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=examples(150))
@given(STEPS)
def test_the_calls_due_are_those_of_a_slow_twin(steps: list[tuple[str, int, int]]) -> None:
    queue, twin, now_ms = PunctuationQueue(), SlowQueue(), 0
    scheduled: list[tuple[Punctuation, Slow]] = []
    for step, number, interval_ms in steps:
        match step:
            case "schedule":
                scheduled.append((queue.schedule(number, interval_ms, nothing), twin.schedule(number, interval_ms)))
            case "cancel" if scheduled:
                punctuation, slow = scheduled[number % len(scheduled)]
                punctuation.cancel()
                slow.cancelled = True
            case "advance":
                now_ms += number
                made = []
                while (punctuation := queue.take(now_ms)) is not None:  # type: ignore[assignment]
                    made.append(punctuation)
                    queue.put_back(punctuation, now_ms)
                expected = twin.advance(now_ms)
                assert [id(each) for each in made] == [
                    id(fast) for slow in expected for fast, other in scheduled if other is slow
                ]
        assert queue.due_ms() == twin.due_ms()


def test_missed_intervals_are_passed_over_and_the_phase_stays() -> None:
    queue = PunctuationQueue()
    punctuation = queue.schedule(1_000, 100, nothing)
    assert queue.take(999) is None
    assert queue.take(1_350) is punctuation
    queue.put_back(punctuation, 1_350)
    assert (queue.due_ms(), queue.take(1_399)) == (1_400, None)


def test_what_a_failed_call_has_scheduled_and_cancelled_is_undone() -> None:
    queue = PunctuationQueue()
    at_work, other = queue.schedule(0, 10, nothing), queue.schedule(5, 10, nothing)
    assert queue.take(0) is at_work
    queue.save()
    at_work.cancel()
    other.cancel()
    other.cancel()
    queue.schedule(1, 10, nothing)
    queue.schedule(2, 10, nothing).cancel()
    queue.undo()
    queue.put_back(at_work, 0)
    assert [queue.take(10), queue.take(10), queue.take(10)] == [other, at_work, None]


def test_what_a_call_that_succeeded_has_scheduled_and_cancelled_stays() -> None:
    queue = PunctuationQueue()
    other = queue.schedule(5, 10, nothing)
    for savepoint in (False, True):
        if savepoint:
            queue.save()
        other.cancel()
        again = queue.schedule(6, 10, nothing)
        queue.save()
        queue.undo()
        assert queue.take(10) is again
        other = queue.schedule(7, 10, nothing)


def test_a_call_that_cancels_itself_is_not_scheduled_again() -> None:
    queue = PunctuationQueue()
    punctuation = queue.schedule(0, 10, nothing)
    assert queue.take(0) is punctuation
    punctuation.cancel()
    queue.put_back(punctuation, 0)
    assert queue.due_ms() is None


def test_a_call_is_due_since_its_time_but_not_before_it_was_scheduled() -> None:
    queue = PunctuationQueue()
    punctuation = queue.schedule(0, 10, nothing, 25)
    assert punctuation.since_ms == 25
    assert queue.take(32) is punctuation
    queue.put_back(punctuation, 32)
    assert punctuation.since_ms == 40
