"""The reference pages written by hand name every HTTP path, every status field and every file of a state directory."""

from __future__ import annotations

import re
from dataclasses import replace
from uuid import UUID

from kstreams_assign.group.member import State
from kstreams_assign.model import TaskId
from kstreams_assign.state import global_folders, identity, journal, lock, members, requests, trash
from kstreams_assign.status.as_json import as_json
from kstreams_assign.status.build import ROLE_ORDER
from kstreams_assign.status.server import PATHS
from kstreams_assign.status.values import QUEUED, STOPPED, Status, TaskStatus, WarmUp
from kstreams_assign.tasks.lifecycle import TaskState
from tests.docs_site.pages import ROOT

REFERENCE = ROOT / "docs" / "reference"


def first_column(page: str, heading: str) -> set[str]:
    """Return the code spans in the first column of the table below a heading."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    section = re.split(r"^#+ ", text.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


def status() -> Status:
    task = TaskStatus(TaskId(0, 1), "active", "running", None)
    return Status("app", UUID(int=7), 0, State.STABLE, tasks=(task,))


def test_every_http_path_has_a_row() -> None:
    assert first_column("http.md", "HTTP paths") == set(PATHS)


def test_every_field_of_the_status_has_a_row() -> None:
    shown = as_json(status())
    assert first_column("http.md", "Fields of `/status.json`") == shown.keys()
    assert first_column("http.md", "Fields of `/tasks`") == shown["tasks"][0].keys()


def test_every_role_and_every_state_of_a_task_has_a_row() -> None:
    assert first_column("http.md", "Roles of a task") == set(ROLE_ORDER)
    lived = {state.value for state in TaskState if state is not TaskState.CLOSED}
    assert first_column("http.md", "States of a task") == {*lived, QUEUED, STOPPED}


def test_every_state_of_a_member_has_a_row() -> None:
    assert first_column("http.md", "States of a member") == {state.value for state in State}


def test_every_field_of_a_warm_up_is_named() -> None:
    warmup = WarmUp(TaskId(0, 1), UUID(int=7), (), None)
    [shown] = as_json(replace(status(), warmups=(warmup,)))["warmups"]
    page = (REFERENCE / "http.md").read_text(encoding="utf-8")
    assert [field for field in shown if f"`{field}`" not in page] == []


def test_every_file_of_a_state_directory_has_a_row() -> None:
    names = {lock.LOCK_FILE, identity.FILE, members.FILE, journal.JOURNAL_FILE, journal.ALIVE_FILE}
    named = first_column("state-directory.md", "Files in the state directory")
    assert named == {
        *names,
        f"{trash.TRASH_FOLDER}/",
        "SUBTOPOLOGY_PARTITION/",
        "0_1/",
        f"{requests.REQUESTS_FOLDER}/",
        f"{global_folders.GLOBAL_FOLDER}/NAME/",
    }
