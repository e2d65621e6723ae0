"""``kstreams-assign clean`` keeps state that nothing could restore, as the state itself says: no topology is needed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kstreams_assign.cli import app
from kstreams_assign.model import Store, SubtopologyShape, TaskId, TopologyShape
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.worker.opening_stores import open_stores

TASK = TaskId(0, 0)
Work = Callable[..., None]
Clean = Callable[..., dict[str, Any]]


@pytest.fixture
def work(tmp_path: Path) -> Work:
    """Write an entry to each store of a task, as one process that ends after that."""

    def write(*stores: Store) -> None:
        shape = TopologyShape((SubtopologyShape(("in",), stores),))
        with StateDirectory(tmp_path / "state", "app", clock_ms=lambda: 0) as directory:
            directory.lock_task(TASK)
            opened = open_stores(directory, shape, "app", TASK)
            changelogs = shape.changelogs("app", TASK)
            opened.write({store.name: [(b"k", b"\0" * 9)] for store in stores}, dict.fromkeys(changelogs.values(), 1))
            opened.close()
            directory.release_task(TASK)

    return write


@pytest.fixture
def clean(tmp_path: Path) -> Clean:
    """Call ``clean`` with the settings of a worker in Python; return what it says of the task."""
    config = tmp_path / "worker.toml"
    config.write_text(f'application_id = "app"\nbootstrap_servers = "b:1"\nstate_dir = "{tmp_path / "state"}"\n')

    def run(*words: str) -> dict[str, Any]:
        result = CliRunner().invoke(app, ["clean", "--config", str(config), *words, "--json"])
        assert result.exit_code == 0, result.output
        [folder] = json.loads(result.stdout)["folders"]
        assert (tmp_path / "state" / "app" / "0_0").exists() is ("--dry-run" in words or not folder["goes"])
        return dict(folder)

    return run


@pytest.mark.parametrize(
    "stores",
    [
        [Store("a"), Store("b", timestamped=True)],
        [Store("a", ttl_ms=1000)],
        [Store("table", source="in")],
        [Store("a"), Store("quick", logged=False, in_memory=True)],
    ],
    ids=["changelogs", "an index of times", "a source topic", "in memory"],
)
def test_what_changelogs_hold_goes(work: Work, clean: Clean, stores: list[Store]) -> None:
    work(*stores)
    for words in (["--dry-run"], []):
        assert clean(*words)["goes"], words


@pytest.mark.parametrize("words", [["--dry-run"], [], ["--older-than", "0s"]])
def test_a_store_without_a_changelog_keeps_the_folder_of_its_task(work: Work, clean: Clean, words: list[str]) -> None:
    work(Store("a"), Store("cache", logged=False, ttl_ms=1000), Store("seen", logged=False))
    entry = clean(*words)
    assert not entry["goes"]
    assert entry["why"] == "no changelog holds cache, seen, so it cannot be restored; name the task to remove it"
    assert clean("--task", "0_0")["goes"]


def test_a_store_that_loses_its_changelog_counts_as_it_was_used_last(work: Work, clean: Clean) -> None:
    work(Store("a"))
    assert clean("--dry-run")["goes"]
    work(Store("a", logged=False))
    assert not clean("--dry-run")["goes"]
    work(Store("a"))
    assert clean("--dry-run")["goes"]


def test_a_store_that_the_topology_does_not_have_any_more_counts(work: Work, clean: Clean) -> None:
    work(Store("a"), Store("cache", logged=False))
    work(Store("a"))
    assert "cache" in clean()["why"]


def test_a_store_that_moves_to_memory_does_not_count(work: Work, clean: Clean) -> None:
    work(Store("a"), Store("cache", logged=False))
    work(Store("a"), Store("cache", logged=False, in_memory=True))
    assert clean()["goes"]


def test_state_that_cannot_be_read_stays_unless_it_is_named(work: Work, clean: Clean, tmp_path: Path) -> None:
    work(Store("a"))
    (tmp_path / "state" / "app" / "0_0" / "CURRENT").unlink()
    entry = clean()
    assert not entry["goes"]
    assert "lacks its file CURRENT" in entry["why"]
    assert entry["why"].endswith("; name the task to remove it")
    assert clean("--task", "0_0")["goes"]


def test_a_dry_run_changes_no_file_of_a_store(work: Work, clean: Clean, tmp_path: Path) -> None:
    work(Store("a"), Store("cache", logged=False))

    def files() -> dict[Path, tuple[bytes, int]]:
        paths = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
        return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}

    before = files()
    clean("--dry-run")
    assert files() == before
