"""A worker reports changes of its state directory before it joins: a new process id, and state deleted for its age."""

from __future__ import annotations

import pytest

from kstreams_assign import Config, Subtopology, Worker
from kstreams_assign.errors import ConfigError
from kstreams_assign.events import StateWipedEvent, WarningsEvent
from kstreams_assign.model import TaskId
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.identity import derived_id

DAY_MS = 86_400_000


def test_a_new_id_and_wiped_state_are_reported_and_logged(broker, tmp_path, caplog):
    with StateDirectory(tmp_path, "reported", clock_ms=lambda: 0, wall_ms=lambda: 1_700_000_000_000) as before:
        before.lock_task(TaskId(0, 1)).mkdir()
        before.release_task(TaskId(0, 1))
    events = []
    config = Config(
        "reported",
        broker,
        str(tmp_path),
        process_name="pod-0",
        state_cleanup_dir_max_age_ms=DAY_MS,
        session_timeout_ms=30_000,
    )
    flow = Subtopology(lambda _task, _records: None, sources=["in"], stores=["s"], sinks=["a-sink-that-is-not-there"])
    worker = Worker(config, [flow], on_event=events.append)
    assert worker.process_id == derived_id("reported", "pod-0")
    with pytest.raises(ConfigError, match="a-sink-that-is-not-there"):
        worker.run()
    warnings, wiped = events[:2]
    assert (type(warnings), type(wiped), wiped.tasks) == (WarningsEvent, StateWipedEvent, ("0_1",))
    (warning,) = warnings.warnings
    assert str(before.process_id) in warning
    assert str(worker.process_id) in warning
    assert warning in caplog.text
