"""The mutex on real threads and files: several members of one process share a directory, its sums and its cleaner.

A member here is its rebalance alone, without a group: report, be given what it reported, lock it, let go. What the
model of ``interleavings`` takes for one step is checked here to be one.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.state.cleaner import Cleaner
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.mutex import MutexState, ReportMutex

TASKS = [TaskId(0, n) for n in range(6)]
AT = {TopicPartition("app-s-changelog", 0): 7}


class Process:
    """What the members of a process share. Every folder may go at once, so that only the mutex protects it."""

    def __init__(self, directory: StateDirectory, mutex: ReportMutex) -> None:
        self.directory, self.mutex, self.sums = directory, mutex, OffsetSums()
        self.cleaner = Cleaner(directory, mutex, self.sums, state_cleanup_delay_ms=0)
        self.given = threading.Lock()
        self.taken: set[TaskId] = set()

    def put_down(self, task: TaskId) -> None:
        """Work on a task, then close it: there is dormant state again."""
        folder = self.directory.lock_task(task)
        folder.mkdir(exist_ok=True)
        (folder / "data").touch()
        self.sums.dormant(task, AT)
        self.directory.release_task(task)


class Rebalance:
    """One member, over and over; it keeps count of what it was promised to find and did not."""

    def __init__(self, process: Process, name: str) -> None:
        self.process, self.name = process, name
        self.kept = 0
        self.missing: list[TaskId] = []

    def run(self, over: threading.Event) -> None:
        chance = random.Random(self.name)
        while not over.wait(chance.random() / 500):
            self.once(chance)

    def once(self, chance: random.Random) -> None:
        held = self.process.mutex.try_report(self.name)
        reported = self.process.sums.report(owned_only=not held)
        if chance.random() < 0.25:  # given up: lost, fenced or closed
            self.process.mutex.release_report(self.name)
            return
        mine = self._given(reported)
        for task in mine:
            folder = self.process.directory.lock_task(task)
            there = (folder / "data").exists()
            self.kept += there
            if not there:
                self.missing.append(task)
                folder.mkdir(exist_ok=True)
            self.process.sums.running(task)
        self.process.mutex.release_report(self.name)
        for task in mine:
            self._close(task)

    def _given(self, reported: dict[TaskId, int]) -> list[TaskId]:
        """As a leader would: reported dormant tasks, each to one member at a time."""
        with self.process.given:
            mine = [task for task, answers in reported.items() if answers >= 0 and task not in self.process.taken][:2]
            self.process.taken.update(mine)
        return mine

    def _close(self, task: TaskId) -> None:
        (self.process.directory.task_path(task) / "data").touch()
        self.process.sums.dormant(task, AT)
        self.process.directory.release_task(task)
        with self.process.given:
            self.process.taken.discard(task)


@contextmanager
def threads(*targets) -> Iterator[None]:
    started = [threading.Thread(target=target) for target in targets]
    for thread in started:
        thread.start()
    try:
        yield
    finally:
        for thread in started:
            thread.join()


ENOUGH = 30


def test_members_of_a_process_have_what_they_reported_while_the_cleaner_runs(opened):
    process = Process(opened(), ReportMutex())
    members = [Rebalance(process, name) for name in ("m1", "m2", "m3")]
    over, removed = threading.Event(), []

    def clean() -> None:
        """Until everybody has had enough turns; what went is worked on again, elsewhere in the process."""
        while len(removed) < ENOUGH or any(member.kept < ENOUGH for member in members):
            for task in process.cleaner.run() or ():
                removed.append(task)
                with process.given:
                    if task not in process.taken:
                        process.put_down(task)
        over.set()

    for task in TASKS:
        process.put_down(task)
    with threads(clean, *(partial(member.run, over) for member in members)):
        pass
    assert [member.missing for member in members] == [[], [], []]
    assert process.mutex.state == MutexState()


class Held(StateDirectory):
    """A disk on which the cleaner's rename takes as long as the test likes."""

    def __init__(self, *args, **named) -> None:
        super().__init__(*args, **named)
        self.renaming, self.go_on = threading.Event(), threading.Event()

    def retire(self, task, grace_ms):
        self.renaming.set()
        assert self.go_on.wait(100)
        return super().retire(task, grace_ms)


def test_no_report_waits_for_a_cleaner_that_hangs_on_the_disk(opened):
    process = Process(opened(Held), ReportMutex())
    process.put_down(TASKS[0])
    process.sums.running(TASKS[1])
    answers = []
    with threads(process.cleaner.run):
        try:
            assert process.directory.renaming.wait(60)
            with threads(lambda: answers.append((process.mutex.try_report("m"), process.sums.report(owned_only=True)))):
                pass  # it came back while the cleaner still hangs
            assert not process.mutex.release_report("m")
        finally:
            process.directory.go_on.set()
    assert answers == [(False, {TASKS[1]: -2})]
    assert process.mutex.try_report("m")


def test_a_join_that_never_ends_starves_the_cleaner_no_longer_than_it_may(opened, clock):
    process = Process(opened(), ReportMutex(clock_ms=clock, hold_ms=60_000))
    process.put_down(TASKS[0])
    assert process.mutex.try_report("m")
    assert process.cleaner.run() is None
    clock.now_ms += 60_000
    assert process.cleaner.run() == [TASKS[0]]
    assert not process.mutex.release_report("m")


class Noted:
    """A lock that notes which locks are held when it is taken."""

    def __init__(self, lock, name: str, held: threading.local, seen: set[tuple[str, str]]) -> None:
        self._lock, self._name, self._held, self._seen = lock, name, held, seen

    def __enter__(self):
        self._lock.acquire()
        mine = self._held.__dict__.setdefault("names", [])
        self._seen.update((other, self._name) for other in mine)
        mine.append(self._name)

    def __exit__(self, *error):
        self._held.names.remove(self._name)
        self._lock.release()


def test_no_lock_is_taken_while_the_mutex_or_the_sums_are_locked(opened):
    process = Process(opened(), ReportMutex())
    held, seen = threading.local(), set()
    for part, name in ((process.mutex, "mutex"), (process.sums, "sums"), (process.directory, "directory")):
        part._guard = Noted(part._guard, name, held, seen)
    for task in TASKS:
        process.put_down(task)
    for _ in range(20):
        Rebalance(process, "m").once(random.Random(0))
    assert process.cleaner.run() == TASKS
    assert {before for before, _ in seen} <= {"directory"}
