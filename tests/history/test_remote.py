"""Tables at an address, of which the driver has a copy of the logs: every point of a transfer, and other runs."""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from kstreams_assign.errors import ConfigError, SparkError, StateDirectoryLocked
from kstreams_assign.history import delta, mirror, staging
from kstreams_assign.history.ask.answer import Asked, answer, script
from kstreams_assign.history.ask.questions import QUESTIONS
from kstreams_assign.history.compaction import compact
from kstreams_assign.history.delta import Snapshot
from kstreams_assign.history.layout import STATES, Layout
from kstreams_assign.history.live import tables_errors
from kstreams_assign.history.mirror import HINT, checkpoints_of, entry
from kstreams_assign.history.opening import working_folder
from kstreams_assign.history.store import LOG
from kstreams_assign.history.tables_reader import TablesReader
from kstreams_assign.history.times import DAY_MS
from kstreams_assign.history.writing import ORDER, HistoryWriter, check_folder
from tests.history.folder_files import FolderFiles, copied
from tests.history.play import Killed, cut, fleet, rows, run, stage
from tests.samples import sample

BATCHES = cut(fleet(), 3)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The same batches in a folder."""
    layout = Layout(tmp_path_factory.mktemp("undisturbed"))
    run(layout, BATCHES)
    return rows(layout)


@pytest.fixture(scope="module")
def written(tmp_path_factory, undisturbed):
    """The batches at an address: the folder that is behind it, and how many changes it took."""
    top = tmp_path_factory.mktemp("written")
    files = FolderFiles(top / "there")
    with copied(files, top / "copy") as layout:
        run(layout, BATCHES, checkpoint=top / "noted")
    assert rows(Layout(files.folder)) == undisturbed
    return files


@pytest.fixture
def there(written, tmp_path):
    """A copy of those tables for one test."""
    shutil.copytree(written.folder, tmp_path / "there")
    return FolderFiles(tmp_path / "there")


def continued(files, tmp_path, batches=BATCHES):
    """Another run, on another machine, of which Spark has noted the same."""
    with copied(files, tmp_path / "another-copy") as layout:
        run(layout, batches, checkpoint=tmp_path / "noted")


@contextmanager
def two_copies(tmp_path):
    """The files of a first batch, and two copies of their logs, as two runs have them."""
    files = FolderFiles(tmp_path / "there")
    continued(files, tmp_path, BATCHES[:1])
    with copied(files, tmp_path / "first") as one, copied(files, tmp_path / "second") as two:
        yield files, one, two


def test_the_copy_keeps_no_file_of_rows(tmp_path):
    with copied(FolderFiles(tmp_path / "there"), tmp_path / "copy") as layout:
        run(layout, BATCHES, checkpoint=tmp_path / "noted")
        kept = [path for path in layout.root.rglob("*.parquet") if LOG not in path.parts]
        assert [path for path in kept if STATES not in path.parts] == []


def test_a_file_in_many_pieces_is_whole(tmp_path, undisturbed, monkeypatch):
    monkeypatch.setattr(staging, "PIECE_BYTES", 100)
    files = FolderFiles(tmp_path / "there")
    continued(files, tmp_path)
    assert rows(Layout(files.folder)) == undisturbed


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("share", sample([step / 12 for step in range(12)], 2))
def test_killed_at_a_change_the_next_run_loses_and_doubles_nothing(share, before, tmp_path, undisturbed, written):
    """Also where the change was made and the answer was lost."""
    at = round(share * written.changes)
    files = FolderFiles(tmp_path / "there", killed_at=at, before=before)
    with pytest.raises(Killed):
        continued(files, tmp_path)
    continued(FolderFiles(files.folder), tmp_path)
    assert rows(Layout(files.folder)) == undisturbed


def test_killed_change_after_change_it_ends_with_the_same_tables(tmp_path, undisturbed):
    """Each attempt gets four changes further than the one before, counted from its own start."""
    files, attempts = FolderFiles(tmp_path / "there"), 0
    while True:
        files = FolderFiles(files.folder, killed_at=4 + attempts * 4)
        try:
            continued(files, tmp_path)
            break
        except Killed:
            attempts += 1
    assert attempts > 5
    assert rows(Layout(files.folder)) == undisturbed


def test_of_two_runs_the_one_that_started_last_goes_on_and_the_other_ends_by_name(tmp_path, undisturbed):
    with two_copies(tmp_path) as (files, one, two):
        first = HistoryWriter(one)
        staged = stage(first, 1, BATCHES[1])
        second = HistoryWriter(two)
        for refused in (first.refuse_other_writer, lambda: first.publish(1, staged), first.vacuum):
            with pytest.raises(
                StateDirectoryLocked, match=rf"--out twin://\S+: another run writes to it now, process {os.getpid()} on"
            ):
                refused()
        second.publish(1, stage(second, 1, BATCHES[1]))
    (tmp_path / "noted" / "commits" / "1").touch()
    continued(files, tmp_path)
    assert rows(Layout(files.folder)) == undisturbed


def test_a_run_that_starts_right_before_the_commit_is_not_overtaken(tmp_path, undisturbed):
    """The look for another writer comes too early to see it; creating the entry does not."""
    with two_copies(tmp_path) as (files, one, two):
        first = HistoryWriter(one)
        staged = stage(first, 1, BATCHES[1])
        create = files.create

        def start_another_run_first(path, content):
            if path.startswith(STATES):
                files.create = create
                HistoryWriter(two)
            return create(path, content)

        files.create = start_another_run_first
        with pytest.raises(StateDirectoryLocked, match="another run writes to it now"):
            first.publish(1, staged)
        assert files.create == create
    continued(files, tmp_path)
    assert rows(Layout(files.folder)) == undisturbed


def test_a_commit_of_another_program_comes_first_and_ours_on_top_of_it(there, tmp_path):
    """Such as an OPTIMIZE of a table by a user of Delta Lake."""
    before = rows(Layout(there.folder))
    with copied(there, tmp_path / "copy") as layout:
        writer = HistoryWriter(layout)
        with copied(there, tmp_path / "theirs") as theirs:
            assert compact(HistoryWriter(theirs), "2999-01-01")
        table = writer.tables["counts"]
        assert table.commit(writer.batch + 1, [])
        table.refresh()
        assert len(table.files()) == len({file.part for file in table.files()})
    assert rows(Layout(there.folder)) == before


def test_a_compaction_during_which_another_run_commits_is_left_for_the_next_time(there, tmp_path):
    before = rows(Layout(there.folder))
    with copied(there, tmp_path / "copy") as layout:
        table = HistoryWriter(layout).tables["members"]
        day = table.files()[0].part
        with copied(there, tmp_path / "theirs") as theirs:
            HistoryWriter(theirs).tables["members"].commit(99, [])
        assert table.compact(day) == 0
        assert rows(Layout(there.folder)) == before
        assert table.compact(day) > 1
    assert rows(Layout(there.folder)) == before


def test_a_commit_whose_answer_was_lost_counts_once(there, tmp_path):
    """The file system's client tries again, and finds the entry that it has created itself."""
    with copied(there, tmp_path / "copy") as layout:
        table = HistoryWriter(layout).tables["counts"]
        create = there.create
        there.create = lambda path, content: create(path, content) and create(path, content)
        assert table.commit(99, [])
        assert table.batch == 99
    assert Snapshot(there.folder / "counts").batch == 99


def test_each_day_is_compacted_and_unused_files_and_logs_are_deleted(there, tmp_path, monkeypatch):
    before = rows(Layout(there.folder))
    stray = there.folder / "members" / "day=2026-11-21" / "batch-9-x.parquet"
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"half")
    rows_before = {path for path in there.folder.rglob("*.parquet") if LOG not in path.parts}
    with copied(there, tmp_path / "copy") as layout:
        merged = compact(HistoryWriter(layout), "2999-01-01")
        assert {each.files_left for each in merged} == {1}
        assert rows_before <= {*there.folder.rglob("*.parquet")}, "files that were replaced are kept for readers"
        assert rows(Layout(there.folder)) == before
        monkeypatch.setattr("kstreams_assign.history.delta.KEPT_HOURS", 0)
        with copied(there, tmp_path / "later") as later:
            writer = HistoryWriter(later)
            compact(writer, "2999-01-01")
            left = {path for path in there.folder.rglob("*.parquet") if LOG not in path.parts}
            named = {there.folder / name / f.path for name, table in writer.tables.items() for f in table.files()}
            assert {path for path in left if STATES not in path.parts} == named
    assert not stray.exists()
    assert rows(Layout(there.folder)) == before


def test_a_day_that_cannot_be_merged_is_not_fetched_and_what_was_fetched_is_dropped(there, tmp_path, monkeypatch):
    with copied(there, tmp_path / "copy") as layout:
        monkeypatch.setattr(delta, "TARGET_BYTES", 100)
        writer = HistoryWriter(layout)
        there.fetched.clear()
        assert compact(writer, "2999-01-01") == []
        assert [path for path in there.fetched if path.endswith(".parquet")] == []
        monkeypatch.undo()
        left = []

        def look(where):
            if where.startswith("merged "):
                left.extend(layout.table(where.removeprefix("merged ")).rglob("day=*/*.parquet"))

        assert compact(writer, "2999-01-01", look) != []
        assert left == []


def test_logs_older_than_a_week_are_deleted_where_the_tables_are(tmp_path):
    files = FolderFiles(tmp_path / "there")
    batches = cut(fleet(), 14)
    continued(files, tmp_path, batches[:-1])
    before = len(files.listed("counts/_delta_log"))
    long_ago = time.time() - 9 * DAY_MS / 1000
    for path in files.folder.rglob("*"):
        os.utime(path, (long_ago, long_ago))
    continued(files, tmp_path, batches)
    with copied(files, tmp_path / "copy") as layout:
        compact(HistoryWriter(layout), "1970-01-02")
        run(layout, batches, checkpoint=tmp_path / "noted")
    left = sorted(file.path for file in files.listed("counts/_delta_log"))
    assert mirror.version_of(left[0]) in checkpoints_of(left)
    assert len(left) < before
    local = Layout(tmp_path / "local")
    run(local, batches)
    assert rows(Layout(files.folder)) == rows(local)


@pytest.mark.parametrize("hint", ["there", "missing", "torn", "of a checkpoint that was deleted"])
def test_a_log_is_opened_whatever_became_of_its_hint(tmp_path, hint):
    files = FolderFiles(tmp_path / "there")
    batches = cut(fleet(), 14)
    continued(files, tmp_path, batches)
    for table in ORDER:
        place = files.folder / table / LOG
        if hint == "missing":
            (place / HINT).unlink(missing_ok=True)
        elif hint == "torn":
            (place / HINT).write_bytes(b'{"ver')
        elif hint != "there":
            (place / HINT).write_text('{"version":3,"size":1}')
    with copied(files, tmp_path / "copy") as layout:
        assert HistoryWriter(layout).batch == len(batches) - 1
        assert TablesReader(layout).read("counts", ["records"], None, None)


def test_a_reader_takes_the_rows_and_only_the_files_that_it_needs(there, tmp_path):
    alone, all_rows = TablesReader(there.folder), {}
    for table in ORDER:
        all_rows[table] = alone.read(table, sorted(alone.columns_of(table)), None, None)
    newest_ms = max(all_rows["rebalances"]["time_ms"])
    with copied(there, tmp_path / "copy") as layout:
        reader = TablesReader(layout)
        assert [path for path in there.fetched if path.endswith(".parquet") and LOG not in path] == []
        reader.read("members", ["member_id"], None, newest_ms - 1000)
        some = [path for path in there.fetched if LOG not in path]
        assert 0 < len(some) < len(there.listed("members"))
        assert {table: reader.read(table, sorted(reader.columns_of(table)), None, None) for table in ORDER} == all_rows


def test_a_file_system_that_fails_is_named_by_its_own_error(there, tmp_path, monkeypatch):
    away = SparkError("--out twin://x: away; start again once the file system answers")

    def fetch(path, target):
        if path.endswith(".parquet") and LOG not in path:
            raise away
        return FolderFiles.fetch(there, path, target)

    monkeypatch.setattr(there, "fetch", fetch)
    with copied(there, tmp_path / "copy") as layout, pytest.raises(SparkError) as raised:
        answer(Asked(layout, QUESTIONS["costly-groups"]))
    assert raised.value is away


def test_a_question_is_answered_as_of_a_folder(there, tmp_path):
    question = QUESTIONS["costly-groups"]
    with copied(there, tmp_path / "copy") as layout:
        assert answer(Asked(layout, question)).rows == answer(Asked(there.folder, question)).rows
        with pytest.raises(ConfigError, match="--sql: DuckDB does not read twin: addresses"):
            script(Asked(layout, question))
        there.address = "s3a://bucket/history"
        assert "delta_scan('s3://bucket/history/movements')" in script(Asked(layout, question))


def test_older_versions_are_those_that_a_folder_has(tmp_path):
    files = FolderFiles(tmp_path / "there")
    continued(files, tmp_path, cut(fleet(), 12))
    table = files.folder / "counts"
    now_s = round(time.time())
    for version in range(Snapshot(table).version + 1):
        os.utime(table / LOG / entry(version), (now_s - 1000 + version,) * 2)
    times = [datetime.fromtimestamp(now_s - 1000 + second, UTC) for second in (-1, 0, 1, 8, 9, 10, 11, 12, 99)]
    for number, as_of in enumerate([*range(15), *times]):
        results = []
        for where in (Layout(files.folder), None):
            with copied(files, tmp_path / f"copy-{number}") as layout:
                try:
                    snapshot = Snapshot((where or layout).table("counts"), as_of, (where or layout).store)
                    results.append((snapshot.version, snapshot.time, snapshot.read(["records"]).num_rows))
                except LookupError as error:
                    results.append((type(error), str(error)))
        assert results[0] == results[1]


def test_tables_at_an_address_whose_checkpoint_was_deleted_are_refused(there, tmp_path):
    with copied(there, tmp_path / "copy") as layout:
        with pytest.raises(ConfigError, match=r"--out twin://\S+: there are tables, but _checkpoint was deleted"):
            check_folder(layout)
        (there.folder / "_checkpoint").mkdir()
        check_folder(layout)


def test_a_file_of_rows_that_is_missing_there_is_named(there, tmp_path):
    next((there.folder / "members").glob("day=*/*.parquet")).unlink()
    with (
        copied(there, tmp_path / "copy") as layout,
        pytest.raises(ConfigError, match=r"--out: twin://\S+/members lacks a file"),
    ):
        TablesReader(layout).read("members", ["member_id"], None, None)


def test_an_address_without_tables_is_named(tmp_path):
    with (
        copied(FolderFiles(tmp_path / "there"), tmp_path / "copy") as layout,
        pytest.raises(ConfigError, match=r"--out twin://there/history: .*history follow --out twin://there/history"),
    ):
        TablesReader(layout)


def test_sigterm_deletes_the_folder_of_a_copy(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = signal.getsignal(signal.SIGTERM)

    def work():
        with working_folder("s3a://bucket/history") as folder:
            (folder / "counts").mkdir()
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(SystemExit) as ended:
        work()
    assert ended.value.code == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_log_that_is_torn_is_named(there):
    newest = max((there.folder / "counts" / LOG).glob("*.json"))
    newest.write_bytes(newest.read_bytes()[:40])
    for place in (there.folder, Layout(there.folder)):
        with pytest.raises(ConfigError, match=r"--out: \S+there cannot be read"):
            TablesReader(place)
    with pytest.raises(SparkError, match=r"--out here: .*; mend that and start again"), tables_errors("here"):
        HistoryWriter(Layout(there.folder))


def test_the_folder_of_a_copy_is_deleted_but_for_its_log_after_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def use(*, fails):
        with working_folder("twin://there/history") as folder:
            for path in (Layout(folder).log, folder / "counts" / LOG / entry(0), folder / "file"):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            if fails:
                raise RuntimeError

    use(fails=False)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RuntimeError):
        use(fails=True)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["spark.log"]
    with working_folder(tmp_path / "tables") as folder:
        assert folder == tmp_path / "tables"
