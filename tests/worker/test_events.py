"""What a worker says of itself reaches the listener, and people through ``logging``."""

from __future__ import annotations

import logging

import pytest

from kstreams_assign.worker.events import EventLog, as_line


def test_what_people_follow_is_logged_at_info_without_what_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kstreams_assign")
    log = EventLog("p", None)
    log.emit("assigned", generation=3, active=["0_1", "0_2"], standby=[], assignor=None)
    log.emit("status", generation=3)
    assert caplog.messages == ["assigned generation=3 active=0_1,0_2"]


def test_a_warning_is_logged_once_until_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    log = EventLog("p", None)
    for warnings in (["one"], ["one"], ["two"], []):
        log.emit("decision", warnings=warnings)
    assert caplog.messages == ["decision: one", "decision: two"]


def test_a_line_keeps_a_zero_and_drops_what_is_not_so() -> None:
    assert as_line("running", {"task": "0_1", "restored": 0, "follow_up": False}) == "running task=0_1 restored=0"
