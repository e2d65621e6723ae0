"""A subtopology that reads the application's dead-letter topic writes no dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kstreams_assign import Config, ConfigError, Record, Subtopology, Task, TopologyTestDriver, Worker
from kstreams_assign.sidecar.settings import SidecarSettings
from kstreams_assign.sidecar.sidecar import Sidecar

LETTERS = "errors_dead_letter_queue_topic_name"
REFUSED = "^topology: subtopology 1 reads the dead-letter topic letters, and its on_error = 'dead_letter' .* 'skip'"


def work(_task: Task, _records: Sequence[Record]) -> None:
    raise ValueError("a bad record")


def topology(on_error: Any, **reads: Any) -> list[Subtopology]:
    return [
        Subtopology(work, sources=["in"], on_error="dead_letter"),
        Subtopology(work, **reads, on_error=on_error),
    ]


READS: Any = pytest.mark.parametrize("reads", [{"sources": ["letters"]}, {"sources_pattern": "let.*"}], ids=str)


@READS
def test_a_worker_whose_letters_would_come_back_is_refused_at_start(tmp_path: Path, reads: dict[str, Any]) -> None:
    config = Config("app", "localhost:1", state_dir=str(tmp_path / "state"), **{LETTERS: "letters"})
    with pytest.raises(ConfigError, match=REFUSED):
        Worker(config, topology("dead_letter", **reads))
    assert not (tmp_path / "state").exists()


@READS
def test_a_driver_whose_letters_would_come_back_is_refused_at_start(reads: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=REFUSED):
        TopologyTestDriver(topology("dead_letter", **reads), **{LETTERS: "letters"})


def test_a_sidecar_whose_letters_would_come_back_is_refused_at_start(tmp_path: Path) -> None:
    tables = [{"sources": [topic], "on_error": "dead_letter"} for topic in ("in", "letters")]
    settings = SidecarSettings.from_mapping(
        {
            "application_id": "app",
            "bootstrap_servers": "localhost:1",
            "state_dir": str(tmp_path / "state"),
            "socket": str(tmp_path / "app.sock"),
            LETTERS: "letters",
            "topology": {"subtopology": tables},
        }
    )
    with pytest.raises(ConfigError, match=REFUSED):
        Sidecar(settings)


@READS
def test_dead_letters_can_be_read_and_skipped(reads: dict[str, Any]) -> None:
    with TopologyTestDriver(topology("skip", **reads), **{LETTERS: "letters"}) as driver:
        driver.pipe("in", b"k", b"v")
        assert [letter.value for letter in driver.read("letters")] == [b"v"]
