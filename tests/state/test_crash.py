"""A crash at each call that touches the disk: the directory opens, nothing that should stay is lost, what was retired
goes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from kstreams_assign.model import TaskId
from kstreams_assign.state.cleaner import wipe_old
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.identity import derived_id
from kstreams_assign.state.journal import Journal, read_journal
from tests.state.crashing import DAY_MS, MAX_AGE_MS, NOW_MS, make_folder

ROOT = Path(__file__).parent.parent.parent
LATER_MS = NOW_MS + 3_600_000
STAY = {"0_0": 1, "0_3": 1, "0_5": 2}
"""Folder -> how many days ago it was last at work. Nothing may ever take these."""
MAY_GO = {"0_1", "0_2", "0_4"}


def whole(folder: Path) -> str | None:
    """What a folder of state holds, if all of it is there; None for less."""
    texts = {path.read_text() for path in (folder / "store" / "data", folder / "offsets") if path.exists()}
    complete = (folder / "store" / "data").exists() and (folder / "offsets").exists()
    return texts.pop() if complete and len(texts) == 1 else None


@pytest.fixture
def template(tmp_path):
    """What a process left that died: state of every age, half of a deletion, and something that no record knows."""
    root = tmp_path / "template"
    now_ms = NOW_MS - DAY_MS
    directory = StateDirectory(root, "app", clock_ms=lambda: 0, wall_ms=lambda: now_ms)
    for name in ("0_0", "0_1", "0_3", "0_4", "0_9"):
        make_folder(directory.path / name, "old")
        directory.lock_task(TaskId.parse(name))
    for name in ("0_3", "0_9"):
        directory.release_task(TaskId.parse(name))
    directory.retire(TaskId(0, 9), 0)
    shutil.rmtree(directory.trash.path / "0_9.0" / "store")
    directory.heartbeat()
    now_ms = NOW_MS - 30 * DAY_MS
    make_folder(directory.path / "0_2", "old")
    directory.lock_task(TaskId(0, 2))
    directory.release_task(TaskId(0, 2))
    make_folder(directory.path / "0_5", "old")
    for path in (directory.path / "0_5", *(directory.path / "0_5").rglob("*")):
        os.utime(path, (0, (NOW_MS - 2 * DAY_MS) / 1000))
    make_folder(directory.trash.path / "stranger", "old")
    directory.close()
    return root


def crashed(work: str, template: Path, out: Path) -> list[str]:
    """Let it die at every call; the calls."""
    words = [sys.executable, "-m", "tests.state.crashing", work, str(template), str(out)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def check(root: Path, process_ids: set[UUID]) -> None:
    folder = root / "app"
    before = {name: whole(folder / name) for name in (*STAY, *MAY_GO) if (folder / name).exists()}
    assert before.items() >= dict.fromkeys(STAY, "old").items(), f"{root}: lost"
    assert None not in before.values(), f"{root}: half of a folder stands in its place"
    with StateDirectory(root, "app", clock_ms=lambda: 0, wall_ms=lambda: LATER_MS) as directory:
        assert directory.process_id in process_ids
        assert directory.warnings == ()
        for name in ("0_3", "0_5"):
            assert directory.age_ms(TaskId.parse(name)) == LATER_MS - NOW_MS + STAY[name] * DAY_MS, f"{root}: {name}"
        assert directory.age_ms(TaskId(0, 0)) in {LATER_MS - NOW_MS, LATER_MS - NOW_MS + DAY_MS}, root
        assert wipe_old(directory, MAX_AGE_MS) == [TaskId(0, 2)] * ("0_2" in before), root
        directory.trash.empty()
        assert [entry.name for entry in directory.trash.path.iterdir()] == ["stranger"], root
        after = {str(task): whole(directory.task_path(task)) for task in directory.tasks_on_disk()}
    assert after == {name: text for name, text in before.items() if name != "0_2"}, root
    assert whole(folder / ".trash" / "stranger") == "old"
    assert not read_journal(folder).trashed


@pytest.mark.parametrize(
    ("work", "calls_min", "left"),
    [
        ("worker", 60, {**dict.fromkeys(STAY, "old"), "0_4": "new"}),
        ("clean", 20, dict.fromkeys([*STAY, "0_1", "0_4"], "old")),
        ("name", 5, dict.fromkeys([*STAY, *MAY_GO], "old")),
    ],
)
def test_after_a_crash_at_any_call_nothing_is_lost_nothing_is_half_and_what_was_retired_goes(
    template, tmp_path, work, calls_min, left
):
    process_ids = {derived_id("app", "pod-0")} if work == "name" else set()
    kept = Journal(template / "app", lambda: 0).process_id
    calls = crashed(work, template, tmp_path / "out")
    copies = sorted((tmp_path / "out").iterdir())
    assert len(calls) > calls_min
    assert len(copies) == len(calls) + sum("write" in call for call in calls) + 2  # and the whole life, and the chain
    assert contents_of(tmp_path / "out" / "whole") == left
    for root in copies:
        check(root, process_ids | {kept})
    print(f"{work}: {len(copies) - 2} crashes")


def contents_of(root: Path) -> dict[str, str | None]:
    return {path.name: whole(path) for path in (root / "app").iterdir() if path.name[0] == "0"}
