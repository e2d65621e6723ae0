"""``demo --json`` and ``--report``: a file that cannot be written is refused before the run, and costs no summary."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from kstreams_assign.demo import command
from kstreams_assign.demo.command import Played, demo
from kstreams_assign.demo.fleet_state import FleetState
from kstreams_assign.errors import ConfigError
from tests.demo.test_summary import summary_of


def no_run(*_: Any, **__: Any) -> Played:
    pytest.fail("the run has begun")


@pytest.mark.parametrize("option", ["json_file", "report"])
def test_a_folder_is_no_output_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, option: str) -> None:
    monkeypatch.setattr(command, "run_demo", no_run)
    with pytest.raises(ConfigError, match=f"{tmp_path}: is a folder; name a file"):
        demo(**{option: tmp_path})


@pytest.mark.parametrize("option", ["json_file", "report"])
def test_a_file_that_may_not_be_written_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, option: str
) -> None:
    monkeypatch.setattr(command, "run_demo", no_run)
    monkeypatch.setattr(os, "access", lambda path, _mode: path != tmp_path)  # permissions do not bind root
    with pytest.raises(ConfigError, match=f"{tmp_path / 'demo'}: not permitted to write there"):
        demo(**{option: tmp_path / "demo"})


def test_a_name_that_the_system_refuses_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "run_demo", no_run)
    with pytest.raises(ConfigError, match="File name too long; name a file that can be written"):
        demo(json_file=tmp_path / ("a" * 300))


def test_the_files_are_written_although_no_reader_takes_the_summary(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "run_demo", lambda *_, **__: Played(summary_of(), FleetState(), [], []))
    monkeypatch.setattr(typer, "echo", lambda *_, **__: sys.exit(0))
    with pytest.raises(SystemExit):
        demo(json_file=tmp_path / "demo.json")
    assert (tmp_path / "demo.json").is_file()


def test_a_file_that_cannot_be_written_after_all_does_not_cost_the_summary(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "demo.json"

    def played(*_: Any, **__: Any) -> Played:
        file.mkdir()
        return Played(summary_of(), FleetState(), [], [])

    monkeypatch.setattr(command, "run_demo", played)
    with pytest.raises(ConfigError, match="--json"):
        demo(json_file=file)
    assert "orders counted" in capsys.readouterr().out
