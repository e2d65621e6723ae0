"""``kstreams-assign clean``: it shows what it would delete and why the rest stays, and spares a living process."""

from __future__ import annotations

import json
import os

import pytest
from typer.testing import CliRunner

from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.cli import app, exit_status
from kstreams_assign.errors import ConfigError, KStreamsAssignError, StateDirectoryLocked, StateError
from kstreams_assign.model import TaskId
from kstreams_assign.sidecar.clean import duration_ms
from kstreams_assign.state.directory import StateDirectory

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000


@pytest.fixture
def state(tmp_path):
    """State of a worker that ended long ago: 0_1 and 1_0 released last, 0_0 two days before, a folder in the trash.

    1_0 has a store without a changelog.
    """
    now_ms = NOW_MS - 2 * DAY_MS
    with StateDirectory(tmp_path / "state", "app", clock_ms=lambda: 0, wall_ms=lambda: now_ms) as directory:
        for name in ("0_0", "0_1", "0_7", "1_0"):
            task = TaskId.parse(name)
            path = directory.lock_task(task)
            if name == "1_0":
                open_task_stores(path, ["cache"]).close()
            else:
                path.mkdir()
                (path / "data").write_bytes(b"x" * 1000)
            if name == "0_1":
                now_ms = NOW_MS
            directory.release_task(task)
        directory.retire(TaskId(0, 7), 0)
        (directory.path / "notes.txt").write_text("mine")
        (directory.trash.path / "stranger").mkdir()
    return directory.path


@pytest.fixture
def run(tmp_path):
    """Call ``clean``; return the facts that it printed."""
    settings = f'application_id = "app"\nbootstrap_servers = "nowhere:1"\nstate_dir = "{tmp_path / "state"}"\n'
    topology = '[[topology.subtopology]]\nsources = ["a"]\nstores = ["s"]\n'
    (tmp_path / "worker.toml").write_text(settings + topology)

    def clean(*words: str, as_json: bool = True) -> dict | str:
        arguments = ["clean", "--config", str(tmp_path / "worker.toml"), *words, *(["--json"] if as_json else [])]
        result = CliRunner().invoke(app, arguments)
        if isinstance(result.exception, KStreamsAssignError):
            raise result.exception
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout) if as_json else result.stdout

    return clean


def names(facts: dict, *, goes: bool) -> list[str]:
    return [folder["name"] for folder in facts["folders"] if folder["goes"] is goes]


def everything(path) -> dict:
    return {file.relative_to(path): file.is_file() and file.read_bytes() for file in path.rglob("*")}


def why(facts: dict, name: str) -> str:
    return next(folder["why"] for folder in facts["folders"] if folder["name"] == name)


def test_a_dry_run_explains_each_folder_and_changes_nothing(state, run):
    before = everything(state)
    facts = run("--dry-run")
    assert everything(state) == before
    assert names(facts, goes=True) == ["0_0", "0_1", ".trash/0_7.0"]
    assert names(facts, goes=False) == ["1_0", ".trash/stranger", "notes.txt"]
    assert facts["dry_run"] is True
    assert facts["freed_bytes"] == 3000
    assert "2023-11-12T22:13:20.000Z" in why(facts, "0_0")
    assert "no changelog holds cache" in why(facts, "1_0")
    assert "no record" in why(facts, ".trash/stranger")
    assert "never removed" in why(facts, "notes.txt")


def test_a_clean_deletes_what_a_dry_run_shows_and_keeps_the_process_id(state, run, tmp_path):
    process = (state / "process").read_bytes()
    planned, facts = run("--dry-run"), run()
    assert [(folder["name"], folder["goes"]) for folder in facts["folders"]] == [
        (folder["name"], folder["goes"]) for folder in planned["folders"]
    ]
    left = sorted(path.name for path in state.iterdir() if not path.name.startswith("."))
    assert left == ["1_0", "journal", "notes.txt", "process"]
    assert sorted(path.name for path in (state / ".trash").iterdir()) == ["stranger"]
    assert (state / "process").read_bytes() == process
    assert "kstreams-assign clean: last used" in (state / "journal").read_text()
    with StateDirectory(tmp_path / "state", "app", clock_ms=lambda: 0) as directory:
        assert directory.warnings == ()
    assert names(run(), goes=True) == []


@pytest.mark.usefixtures("state")
def test_an_age_spares_what_is_younger(run, monkeypatch):
    monkeypatch.setattr("kstreams_assign.sidecar.clean.wall_ms", lambda: NOW_MS + DAY_MS)
    facts = run("--older-than", "36h")
    assert names(facts, goes=True) == ["0_0", ".trash/0_7.0"]
    assert why(facts, "0_1") == "used more recently than the requested age"
    assert [folder["idle_ms"] for folder in facts["folders"][:2]] == [3 * DAY_MS, DAY_MS]


def test_named_tasks_go_alone_even_without_a_changelog(state, run):
    facts = run("--task", "1_0")
    assert names(facts, goes=True) == ["1_0", ".trash/0_7.0"]
    assert why(facts, "0_0") == "not among the named tasks"
    assert (state / "0_0" / "data").exists()


def test_global_tables_go_by_age_and_stay_if_tasks_are_named(state, run, monkeypatch):
    for name, day in (("names", 0), ("rates", 2)):
        (table := state / "global" / name).mkdir(parents=True)
        (table / "data").write_bytes(b"x" * 10)
        for path in (table / "data", table):
            os.utime(path, (0, (NOW_MS + day * DAY_MS) / 1000))
    monkeypatch.setattr("kstreams_assign.sidecar.clean.wall_ms", lambda: NOW_MS + 3 * DAY_MS)
    assert why(run("--task", "0_0", "--dry-run"), "global/names") == "not among the named tasks"
    facts = run("--older-than", "2d")
    assert "global/names" in names(facts, goes=True)
    assert why(facts, "global/names") == "global table, last written 2023-11-14T22:13:20.000Z"
    assert names(facts, goes=False)[:2] == ["1_0", "global/rates"]
    assert [path.name for path in (state / "global").iterdir()] == ["rates"]
    run()
    assert list((state / "global").iterdir()) == []


@pytest.mark.usefixtures("state")
def test_people_get_a_table(run):
    assert run("--dry-run", as_json=False).splitlines()[-1] == "2.9 KiB would be freed, 3 of 6 entries"
    lines = run(as_json=False).splitlines()
    assert lines[0].split()[:3] == ["0_0", "1000", "B"]
    assert "removed: last used 2023-11-12T22:13:20.000Z" in lines[0]
    assert lines[-1] == "2.9 KiB freed, 3 of 6 entries"


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_a_living_process_is_named_and_nothing_is_touched(state, run, tmp_path, words):
    with StateDirectory(tmp_path / "state", "app", clock_ms=lambda: 0):
        before = everything(state)
        with pytest.raises(
            StateDirectoryLocked, match=rf"process {os.getpid()} on host {os.uname().nodename}; stop that"
        ):
            run(*words)
        assert everything(state) == before
    assert exit_status(StateDirectoryLocked) == 1


def test_a_task_without_state_is_named_before_anything_goes(state, run):
    before = everything(state)
    with pytest.raises(StateError, match=r"no state of task 0_9 in .*; tasks there: 0_0, 0_1, 1_0"):
        run("--task", "0_9", "--task", "0_0")
    assert everything(state) == before


def test_without_a_state_directory_clean_deletes_and_creates_nothing(run, tmp_path):
    with pytest.raises(ConfigError, match="no process of 'app' has used it"):
        run()
    assert not (tmp_path / "state").exists()


def test_a_folder_that_could_not_be_deleted_is_an_error_after_the_facts(state, run, monkeypatch):
    def refuse(*_args) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(StateError, match="could not be removed: 0_0, 0_1; look at"):
        run()
    assert (state / "0_0" / "data").exists()
    assert not list((state / ".trash").glob("0_7*"))


@pytest.mark.parametrize("text", ["", "7", "d", "7w", "-1d", "1.5h", "7 d", "٧d"])
def test_an_age_without_a_unit_that_is_known_is_refused(text):
    with pytest.raises(ConfigError, match="--older-than"):
        duration_ms(text)


def test_ages_are_read_in_their_units():
    ages_ms = [duration_ms(text) for text in ("500ms", "45s", "30m", "12h", "7d", "0s")]
    assert ages_ms == [500, 45_000, 1_800_000, 43_200_000, 7 * DAY_MS, 0]
