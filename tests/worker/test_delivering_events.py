"""The listener gets every event, one at a time and in order, also those that happen while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from kstreams_assign import Event, Record, Subtopology, Task, TopologyTestDriver
from kstreams_assign.events import ClosedEvent, FirstRecordEvent, LeaveFailedEvent, TaskPausedEvent
from kstreams_assign.worker import events
from kstreams_assign.worker.events import EventLog

SECONDS = 20
MANY = 100


def start(work: Callable[[], object]) -> threading.Thread:
    """Run ``work`` beside the test, which does not hang with it."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def finish(thread: threading.Thread) -> None:
    thread.join(SECONDS)
    assert not thread.is_alive()


class Listener:
    """Remembers its events, and for each runs what the test has set for it."""

    def __init__(self) -> None:
        self.names: list[str] = []
        """An event is here once the call with it is over."""
        self.actions: dict[str, Callable[[], object]] = {}
        self.threads: list[int] = []
        self._calls = threading.Lock()
        self.log = EventLog("p", self)

    def __call__(self, event: Event) -> None:
        assert self._calls.acquire(blocking=False), "another call is under way"
        name = event.reason if isinstance(event, LeaveFailedEvent) else event.name
        try:
            self.threads.append(threading.get_ident())
            self.actions.get(name, lambda: None)()
        finally:
            self.names.append(name)
            self._calls.release()

    def emit(self, *names: str) -> None:
        for name in names:
            self.log.emit(LeaveFailedEvent(reason=name))


class Gate:
    """A call of the listener that lasts until the test lets it go on."""

    def __init__(self, listener: Listener, name: str) -> None:
        self._is_open, self.entered = threading.Event(), threading.Event()
        listener.actions[name] = self._hold
        self.caller = start(lambda: listener.emit(name))
        assert self.entered.wait(SECONDS)

    def _hold(self) -> None:
        self.entered.set()
        assert self._is_open.wait(SECONDS)

    def open(self) -> None:
        self._is_open.set()
        finish(self.caller)


def test_events_of_the_listener_itself_come_after_its_call() -> None:
    listener = Listener()
    listener.actions["a"] = lambda: listener.emit("b", "c")
    listener.actions["b"] = lambda: listener.emit("d")
    finish(start(lambda: listener.emit("a")))
    assert listener.names == ["a", "b", "c", "d"]


def test_a_listener_can_pause_the_task_that_it_hears_of() -> None:
    heard: list[str] = []

    def on_event(event: Event) -> None:
        if isinstance(event, FirstRecordEvent):
            assert driver.pause(event.task) == (), "it does not wait"
        heard.append(event.name)

    def process(task: Task, records: Sequence[Record]) -> None:
        for record in records:
            task.emit("out", record.key, record.value)

    def run() -> None:
        with driver:
            driver.pipe("in", b"k", b"1")
            paused.extend(map(str, driver.paused()))

    driver = TopologyTestDriver([Subtopology(process, sources=["in"], sinks=["out"])], on_event=on_event)
    paused: list[str] = []
    finish(start(run))
    assert paused == ["0_0"]
    assert heard.index(FirstRecordEvent.name) < heard.index(TaskPausedEvent.name)


def test_a_listener_can_wait_for_a_thread_that_reports_events() -> None:
    """They come afterwards, on the listener's thread. The thread waits once for the listener, not with each event."""
    listener = Listener()
    after = [f"b{number}" for number in range(MANY)]
    listener.actions["a"] = lambda: finish(start(lambda: listener.emit(*after)))
    calling = start(lambda: listener.emit("a"))
    calling.join(2 * SECONDS)
    assert not calling.is_alive()
    assert listener.names == ["a", *after]
    assert set(listener.threads) == {calling.ident}


def test_an_event_is_delivered_when_its_report_returns_although_another_call_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "PATIENCE_S", SECONDS)
    listener = Listener()
    gate = Gate(listener, "a")
    were_delivered: list[bool] = []

    def report(name: str) -> None:
        listener.emit(name)
        were_delivered.append(name in listener.names)

    others = [start(partial(report, name)) for name in "bc"]
    gate.open()
    for other in others:
        finish(other)
    assert were_delivered == [True, True]


def test_the_last_event_of_a_worker_waits_for_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PATIENCE_S", 0)
    listener = Listener()
    gate = Gate(listener, "a")
    listener.emit("b")
    assert listener.names == [], "the call under way delivers it"
    closed = threading.Event()

    def close() -> None:
        listener.log.emit(ClosedEvent(error=None))
        closed.set()

    closing = start(close)
    assert not closed.wait(0.1)
    gate.open()
    finish(closing)
    assert listener.names == ["a", "b", "closed"]


def test_an_error_of_the_listener_withholds_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PATIENCE_S", 0)
    listener = Listener()
    errors: list[str] = []

    def fail() -> None:
        listener.emit("b")
        finish(start(lambda: listener.emit("c")))
        raise ValueError("a")

    def fail_again() -> None:
        raise ValueError("c")

    def run() -> None:
        try:
            listener.emit("a")
        except ValueError as error:
            errors.append(str(error))

    listener.actions.update({"a": fail, "c": fail_again})
    finish(start(run))
    assert listener.names == ["a", "b", "c"]
    assert errors == ["a"], "the first one"
    listener.emit("d")
    assert listener.names[-1] == "d"


class BusyUntilReleased:
    """The lock of a delivery. Before its first release, ``meanwhile`` happens."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._lock = threading.Lock()
        self._meanwhile: list[Callable[[], object]] = [meanwhile]
        self.acquire = self._lock.acquire

    def release(self) -> None:
        while self._meanwhile:
            self._meanwhile.pop()()
        self._lock.release()


def test_an_event_that_comes_as_a_delivery_ends_is_not_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PATIENCE_S", 0)
    listener = Listener()
    lock = BusyUntilReleased(lambda: finish(start(lambda: listener.emit("b"))))
    monkeypatch.setattr(listener.log, "_turn", lock)
    listener.emit("a")
    assert listener.names == ["a", "b"]


def test_each_thread_keeps_the_order_of_its_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PATIENCE_S", 0)
    listener = Listener()
    names = {letter: [f"{letter}{number}" for number in range(MANY)] for letter in "abcd"}
    threads = [start(partial(listener.emit, *own)) for own in names.values()]
    for thread in threads:
        finish(thread)
    assert len(listener.names) == len(names) * MANY
    for letter, own in names.items():
        assert [name for name in listener.names if name[0] == letter] == own
