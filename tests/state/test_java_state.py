"""A folder that a Java application uses is left alone: the two locks of the same file do not see each other.

Java's names: ``StateDirectory.PROCESS_FILE_NAME`` (not in 2.4), ``StateDirectory.LOCK_FILE_NAME`` (up to 2.7 also in a
task's folder), ``StateManagerUtil.CHECKPOINT_FILE_NAME`` (under exactly once not while a task runs), and the parent
of the stores in ``RocksDBStore.openDB``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kstreams_assign.adapters.rocksdb import open_task_stores
from kstreams_assign.errors import StateError
from kstreams_assign.model import TaskId
from kstreams_assign.state.cleaner import Cleaner
from kstreams_assign.state.cleaning import Selection, clean, survey
from kstreams_assign.state.directory import StateDirectory
from kstreams_assign.state.lags import OffsetSums
from kstreams_assign.state.mutex import ReportMutex

FILES = ["kafka-streams-process-metadata", "0_1/.checkpoint", "0_1/.lock", "0_1/rocksdb"]
REFUSED = r"the state directory \S+/app has state of a Java application \({}\); choose another state_dir"


def write_java(folder: Path, file: str) -> set[Path]:
    """Write the file as Java does, with a task's store and the lock file; return all that is in the folder then."""
    (folder / "0_1/rocksdb/counts").mkdir(parents=True, exist_ok=True)
    for name in (file, "0_1/rocksdb/counts/CURRENT", ".lock"):
        (folder / name).touch()
    return set(folder.rglob("*"))


@pytest.mark.parametrize("file", FILES)
def test_a_directory_with_state_of_a_java_application_is_refused_and_left_as_it_is(tmp_path, clock, file):
    there = write_java(tmp_path / "app", file)
    for use in (
        lambda: StateDirectory(tmp_path, "app", clock_ms=clock),
        lambda: survey(tmp_path, "app", Selection(), 0),
        lambda: clean(tmp_path, "app", Selection(), lambda: 0),
        lambda: clean(tmp_path, "app", Selection([TaskId(0, 1)]), lambda: 0),
    ):
        with pytest.raises(StateError, match=REFUSED.format(file)):
            use()
        assert set((tmp_path / "app").rglob("*")) == there


@pytest.mark.parametrize("file", FILES)
def test_nothing_is_cleaned_after_a_java_application_has_begun_to_use_the_directory(opened, clock, caplog, file):
    directory = opened()
    cleaner = Cleaner(directory, ReportMutex(), OffsetSums(), state_cleanup_delay_ms=500)
    write_java(directory.path, file)
    for _ in range(3):
        clock.now_ms += 1_000
        assert not cleaner.run()
    assert directory.has_folder(TaskId(0, 1))
    assert [record.message for record in caplog.records if "Java" in record.message] == caplog.messages
    assert len(caplog.messages) == 1


def test_a_store_of_ours_is_not_taken_for_javas(opened):
    directory = opened()
    open_task_stores(directory.lock_task(TaskId(0, 1)), ["counts"]).close()
    directory.release_task(TaskId(0, 1))
    directory.close()
    assert opened().tasks_on_disk() == [TaskId(0, 1)]


def test_a_directory_of_another_java_application_beside_it_does_not_matter(opened, tmp_path):
    write_java(tmp_path / "other", FILES[0])
    opened()
