"""Events reach the listener, and operators through ``logging``."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.events import AdoptedEvent, EarlyProbingOffEvent, ListeningEvent, PurgeFailedEvent
from kstreams_assign.worker.events import EventLog


def test_sentences_are_logged_at_info_and_the_listener_has_the_facts(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kstreams_assign")
    heard = []
    log = EventLog("5c7ff2e1-0000", heard.append)
    log.emit(ListeningEvent(socket="app.sock"))
    log.emit(AdoptedEvent(generation=3, left=(), came=("0_1",)))
    assert caplog.messages == ["The sidecar waits for its application at app.sock."]
    assert [replace(event, time_ms=0) for event in heard] == [
        ListeningEvent(process_id="5c7ff2e1-0000", socket="app.sock"),
        AdoptedEvent(process_id="5c7ff2e1-0000", generation=3, left=(), came=("0_1",)),
    ]
    assert all(abs(event.time_ms - wall_ms()) < 60_000 for event in heard)


def test_a_warning_is_logged_once_until_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    log = EventLog("p", None)
    for warnings in (("a",), ("a",), ("b",), (), ("b",)):
        log.emit(PurgeFailedEvent(warnings=warnings))
    log.emit(EarlyProbingOffEvent(warnings=("no right to read; the probing interval holds",)))
    assert log.warnings() == {
        "purge_failed": ("b",),
        "early_probing_off": ("no right to read; the probing interval holds",),
    }
    assert caplog.messages == ["a", "b", "b", "Early probing is off: no right to read; the probing interval holds"]
    assert {record.levelname for record in caplog.records} == {"WARNING"}
