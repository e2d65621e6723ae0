"""A process that is not root, with limits on its files: each case stops a task, and the task resumes once mended.

File permissions do not bind root, so the process changes its user. A limit on the size of files (``RLIMIT_FSIZE``) acts
as a full disk without a mount, here and in a container alike. Prints the name of each case that ended as it should; the
first that does not raises. ``test_damage`` starts it with the task folder to damage.
"""

from __future__ import annotations

import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.errors import StateError
from kstreams_assign.state.trash import TRASH_FOLDER
from tests.restore.logs import Log
from tests.worker.damage import (
    CHANGELOG,
    IN_LOG,
    TASK,
    Rig,
    check_it_stops_and_goes_on,
    check_stopped_then_cured,
    entries,
)

UNPRIVILEGED_ID = 65_534
SMALL_BYTES = 96 << 10
FREE_FILES = 5
"""Opening the store needs some ten: its tables, and files to write, do not get theirs."""
NO_RIGHTS, NO_SPACE = "is not this user's", "has no space left"
TOO_MANY, STAYS = "may open no more files", "cannot be moved away; delete it"


def whole() -> Log:
    return Log(entries=entries(IN_LOG), topic_id="id-1")


def without(path: Path, mode: int) -> Callable[[], object]:
    """Take rights away; the returned function gives them back."""
    before = path.stat().st_mode & 0o777
    path.chmod(mode)
    return lambda: path.chmod(before)


def files_up_to(size_bytes: int) -> Callable[[], object]:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def few_more_files() -> Callable[[], object]:
    """Limit the number of files as ``ulimit -n`` does, above those that are open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + FREE_FILES, hard))
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def damaged_in_a_fixed_place(folder: Path) -> Callable[[], object]:
    """Damage a folder that can be neither read nor moved away; the returned function deletes its content."""
    (folder / "CURRENT").unlink()
    give_back = without(folder.parent, 0o500)

    def delete() -> None:
        for file in sorted(folder.iterdir(), key=lambda file: file.name.startswith("MANIFEST")):
            file.unlink()  # the manifest last: a reader that comes before sees damage
        give_back()

    return delete


def no_rights_on_the_state_directory(folder: Path) -> None:
    check_stopped_then_cured(folder.parents[1], whole(), NO_RIGHTS, lambda: without(folder.parent, 0o000))


def no_rights_on_the_folder(folder: Path) -> None:
    check_stopped_then_cured(folder.parents[1], whole(), NO_RIGHTS, lambda: without(folder, 0o000))


def no_rights_on_one_file(folder: Path) -> None:
    table = max(folder.glob("*.sst"))
    check_stopped_then_cured(folder.parents[1], whole(), NO_RIGHTS, lambda: without(table, 0o000))


def a_folder_that_cannot_be_written(folder: Path) -> None:
    check_stopped_then_cured(folder.parents[1], whole(), NO_RIGHTS, lambda: without(folder, 0o500))


def no_space_while_opening(folder: Path) -> None:
    check_stopped_then_cured(folder.parents[1], whole(), NO_SPACE, lambda: files_up_to(100))


def no_space_while_restoring(folder: Path) -> None:
    log = whole()
    log.append(*[(b"%05d" % n, os.urandom(1_000)) for n in range(1_000)])
    check_stopped_then_cured(folder.parents[1], log, NO_SPACE, lambda: files_up_to(SMALL_BYTES))


def no_space_while_committing(folder: Path) -> None:
    """As after a failed commit: the records are in the changelog, and the stores come back unchanged."""
    log = whole()
    with Rig(folder.parents[1], log) as rig:
        rig.until_running()
        stores = rig.take()
        log.append(*[(b"%05d" % n, os.urandom(1_000)) for n in range(1_000)])
        cure = files_up_to(SMALL_BYTES)
        with pytest.raises(StateError, match=NO_SPACE):
            stores.write({"totals": log.entries[IN_LOG:]}, {CHANGELOG: log.end})
        rig.thread.restore(TASK, stores, [])
        check_it_stops_and_goes_on(rig, log, NO_SPACE, cure)


def too_many_open_files(folder: Path) -> None:
    check_stopped_then_cured(folder.parents[1], whole(), TOO_MANY, few_more_files)


def a_damaged_folder_and_no_trash(folder: Path) -> None:
    check_stopped_then_cured(folder.parents[1], whole(), STAYS, lambda: damaged_in_a_fixed_place(folder))


def a_damaged_folder_that_cannot_be_moved_away(folder: Path) -> None:
    (folder.parent / TRASH_FOLDER).mkdir()
    check_stopped_then_cured(folder.parents[1], whole(), STAYS, lambda: damaged_in_a_fixed_place(folder))


CASES = (
    no_rights_on_the_state_directory,
    no_rights_on_the_folder,
    no_rights_on_one_file,
    a_folder_that_cannot_be_written,
    no_space_while_opening,
    no_space_while_restoring,
    no_space_while_committing,
    too_many_open_files,
    a_damaged_folder_and_no_trash,
    a_damaged_folder_that_cannot_be_moved_away,
)


def main(crashed: Path) -> None:
    with tempfile.TemporaryDirectory() as root:
        made_for(root, crashed)
        for case in CASES:
            folder = Path(root, case.__name__, "app", "0_3")
            case(folder)
            print(case.__name__.replace("_", " "), flush=True)


def made_for(root: str, crashed: Path) -> None:
    """Copy the folder for each case, and become an unprivileged user."""
    for case in CASES:
        shutil.copytree(crashed, Path(root, case.__name__, "app", "0_3"))
    open_task_stores(Path(root, "first"), []).close()  # loads its late imports while the files can be read
    if os.geteuid() == 0:
        for path in [Path(root), *Path(root).rglob("*")]:
            os.chown(path, UNPRIVILEGED_ID, UNPRIVILEGED_ID)
        os.setgid(UNPRIVILEGED_ID)
        os.setuid(UNPRIVILEGED_ID)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
