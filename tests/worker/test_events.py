"""Events reach the listener, and operators through ``logging``."""

from __future__ import annotations

import logging

import pytest

from kstreams_assign.worker.events import EventLog


def test_sentences_are_logged_at_info_and_the_listener_has_the_facts(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kstreams_assign")
    heard = []
    log = EventLog("5c7ff2e1-0000", heard.append)
    log.emit("listening", socket="app.sock")
    log.emit("adopted", generation=3, left=[], came=[])
    assert caplog.messages == ["The sidecar waits for its application at app.sock."]
    facts = [{key: value for key, value in event.items() if key != "time_ms"} for event in heard]
    assert facts == [
        {"event": "listening", "process_id": "5c7ff2e1-0000", "socket": "app.sock"},
        {"event": "adopted", "process_id": "5c7ff2e1-0000", "generation": 3, "left": [], "came": []},
    ]


def test_a_warning_is_logged_once_until_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    log = EventLog("p", None)
    for warnings in (["a"], ["a"], ["b"], [], ["b"]):
        log.emit("purge_failed", warnings=warnings)
    log.emit("early_probing_off", warnings=["no right to read; the probing interval holds"])
    assert caplog.messages == ["a", "b", "b", "Early probing is off: no right to read; the probing interval holds"]
    assert {record.levelname for record in caplog.records} == {"WARNING"}
