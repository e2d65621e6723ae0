"""Tables on file systems that this machine does not mount: a real HDFS, and ViewFs, which mounts a part of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.errors import ConfigError, SparkError, StateDirectoryLocked
from kstreams_assign.history import hadoop
from kstreams_assign.history.ask.answer import Asked, answer
from kstreams_assign.history.ask.questions import BY_SQL
from kstreams_assign.history.compaction import compact
from kstreams_assign.history.fleet import alternatives_of, what_if
from kstreams_assign.history.follow import Settings, follow_until_done, following
from kstreams_assign.history.hadoop import HadoopFiles
from kstreams_assign.history.layout import Layout
from kstreams_assign.history.opening import opened
from kstreams_assign.history.report import report
from kstreams_assign.history.source import Folder
from kstreams_assign.history.store import LOG
from kstreams_assign.history.tables_reader import TablesReader
from kstreams_assign.history.writing import ORDER, HistoryWriter
from tests.history.hdfs import copied, hdfs, send
from tests.history.marker import SECRET, files_with_it
from tests.history.play import cut, failing_once_at, fleet, rows, run, write_records
from tests.installed import ROOT

pytestmark = pytest.mark.timeout(600)  # each of these runs has several batches

BATCHES = cut(fleet(), 2)
SCRIPT = Path(__file__).with_name("killed_follow.py")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The address of the HDFS."""
    with hdfs(tmp_path_factory.mktemp("hdfs")) as address:
        yield address


@pytest.fixture
def address(cluster, tmp_path):
    """An address of the test's own, where there is nothing yet."""
    return f"{cluster}/{tmp_path.name}/history"


def mounted(spark, address):
    """Another address, which leads to the first."""
    parent, _, name = address.rpartition("/")
    table = parent.rpartition("/")[2].replace("_", "-")
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set(f"fs.viewfs.mounttable.{table}.link./x", parent)
    return f"viewfs://{table}/x/{name}"


def follow(spark, records, address, copy, reached=lambda _: None):
    reports = []
    settings = Settings(once=True, tasks=2)
    with (
        opened(spark, address, copy) as layout,
        following(spark, Folder(records), layout, settings, watch=reports.append, reached=reached) as query,
    ):
        follow_until_done(query, layout, lambda _: None)
    return reports


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """What comes of the two batches without Spark, in a folder."""
    layout = Layout(tmp_path_factory.mktemp("straight"))
    run(layout, BATCHES)
    return layout


@pytest.fixture(scope="module")
def followed(spark_for_all, cluster, tmp_path_factory):
    """Both batches at an address, by two runs; the second fails at some boundaries first. A copy of what is there."""
    top = tmp_path_factory.mktemp("followed")
    spark, records, address = spark_for_all, top / "records", f"{cluster}/bucket=3/history"
    write_records(records, "a.parquet", BATCHES[0])
    assert [report.batch for report in follow(spark, records, address, top / "copy-0")] == [0]
    write_records(records, "b.parquet", BATCHES[1])
    to_come = ["derived", "decided", f"published {ORDER[2]}"]
    fail = failing_once_at(to_come)
    while to_come:
        # after "decided" it is the next run that completes the tables, before its query starts
        with pytest.raises((SparkError, RuntimeError), match=f"no more after: {to_come[0]}"):
            follow(spark, records, address, top / f"copy-{len(to_come)}", fail)
    assert [report.batch for report in follow(spark, records, address, top / "copy-4")] in ([], [1])
    assert follow(spark, records, address, top / "copy-5") == [], "nothing new, no batch"
    return address, copied(spark, address, top / "behind")


def test_the_tables_are_those_of_a_folder(spark, followed, straight):
    del spark
    _, behind = followed
    assert rows(behind) == rows(straight)
    assert sorted(path.name for path in behind.root.iterdir()) == sorted((*ORDER, "_checkpoint", "_state"))
    assert not list(behind.root.rglob("*.tmp"))


def test_readers_find_what_they_find_in_a_folder(spark, followed, straight, tmp_path):
    address, _ = followed
    with opened(spark, address, tmp_path / "copy") as layout:
        drawn = [report(place, tmp_path / "page.html", days=9) for place in (layout, straight)]
        assert drawn[0] == drawn[1]
        asked = Asked(layout, BY_SQL[0], days=9)
        for each in BY_SQL:
            ours, theirs = (answer(replace(asked, tables=place, question=each)) for place in (layout, straight))
            assert ours.rows == theirs.rows
        alternatives = alternatives_of(["max_warmup_replicas=2,4"], ["least_movement"])
        played, theirs = (what_if(spark, place, alternatives, tasks=2) for place in (layout, straight))
        assert played == theirs
        assert played.replayed > 0


def test_an_older_version_is_read_and_days_were_compacted(spark, followed, straight, tmp_path):
    address, behind = followed
    with opened(spark, address, tmp_path / "older") as layout:
        older = TablesReader(layout, 1).read("rebalances", ["generation"], None, None)["generation"]
        newest = TablesReader(behind).read("rebalances", ["generation"], None, None)["generation"]
        assert 0 < len(older) < len(newest)
    with opened(spark, address, tmp_path / "copy") as layout:
        writer = HistoryWriter(layout)
        days = [file.part for file in writer.tables["rebalances"].files()]
        assert days
        assert len(days) == len(set(days)), "the runs have merged the files of each day"
        assert compact(writer, "2999-01-01") == []
    assert rows(copied(spark, address, tmp_path / "behind")) == rows(straight)


@pytest.mark.parametrize("other", ["follow", "compact"])
def test_the_run_that_started_last_goes_on_and_the_other_ends_by_name(spark, other, address, tmp_path, straight):
    records = tmp_path / "records"
    write_records(records, "a.parquet", BATCHES[0])

    def start_the_other(where):
        if where == "derived":
            with opened(spark, address, tmp_path / "other-copy") as layout:
                writer = HistoryWriter(layout)
                if other == "compact":
                    compact(writer, "2999-01-01")

    with pytest.raises(
        StateDirectoryLocked, match=rf"--out {address}: another run writes to it now, process {os.getpid()} on host \S+"
    ):
        follow(spark, records, address, tmp_path / "copy", start_the_other)
    write_records(records, "b.parquet", BATCHES[1])
    for number in range(2):  # the batch that had been planned, then the new one
        follow(spark, records, address, tmp_path / f"copy-{number}")
    assert rows(copied(spark, address, tmp_path / "behind")) == rows(straight)


def test_a_run_that_misses_what_the_other_has_deleted_ends_by_the_others_name(spark, address, tmp_path, monkeypatch):
    write_records(tmp_path / "records", "a.parquet", BATCHES[0])

    def deleted(*_):
        with opened(spark, address, tmp_path / "other-copy") as layout:
            HistoryWriter(layout)
        raise FileNotFoundError("bucket=1/batch.parquet")

    monkeypatch.setattr("kstreams_assign.history.follow.derive_there", deleted)
    with pytest.raises(StateDirectoryLocked, match=rf"--out {address}: another run writes to it now, process "):
        follow(spark, tmp_path / "records", address, tmp_path / "copy")


@pytest.mark.parametrize("whole_at_close", [(), ("hdfs", "viewfs")], ids=["renamed", "whole at close"])
@pytest.mark.parametrize("through_viewfs", [False, True], ids=["hdfs", "viewfs"])
def test_a_file_is_created_once_and_whole(spark, address, tmp_path, monkeypatch, whole_at_close, through_viewfs):
    monkeypatch.setattr(hadoop, "WHOLE_AT_CLOSE", whole_at_close)
    before_ms = wall_ms()
    files = HadoopFiles(spark, mounted(spark, address) if through_viewfs else address)
    name = "counts/_delta_log/0.json"
    assert files.list(["counts"]) == {"counts": []}
    assert files.create(name, b"first\0\xff")
    assert not files.create(name, b"second")
    behind = copied(spark, address, tmp_path / "behind").root / name
    assert behind.read_bytes() == b"first\0\xff"
    assert [path.name for path in behind.parent.iterdir()] == ["0.json"]
    assert files.fetch(name, tmp_path / "fetched")
    assert (tmp_path / "fetched").read_bytes() == b"first\0\xff"
    assert not files.fetch("counts/_delta_log/1.json", tmp_path / "none")
    for content in (b"1", b"22"):
        (tmp_path / "new").write_bytes(content)
        files.send(tmp_path / "new", "counts/day=2026-11-21/a b.parquet")
    lists = files.list(["counts", "members", "counts/_delta_log"])
    assert [(file.path, file.size) for file in lists["counts"]] == [("day=2026-11-21/a b.parquet", 2)]
    (listed,) = lists["counts/_delta_log"]
    assert listed[:2] == ("0.json", 7)
    assert before_ms <= listed.modified_ms <= wall_ms()
    assert lists["members"] == []
    files.delete(name)
    files.delete(name)
    assert not files.exists(name)


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("s3a://bucket/history", r"add --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:3\.\d"),
        ("gs://bucket/history", "add --conf spark.jars.packages=com.google.cloud.bigdataoss:gcs-connector"),
        ("abfss://c@a.dfs.core.windows.net/h", "add --conf spark.jars.packages=org.apache.hadoop:hadoop-azure"),
        ("nowhere://bucket/history", "Spark has no file system nowhere: name its package"),
        ("viewfs://not-mounted/history", "mount it with spark.hadoop.fs.viewfs.mounttable.NAME"),
    ],
)
def test_a_file_system_that_spark_lacks_is_named_with_the_setting_that_brings_it(spark, address, problem):
    with pytest.raises(ConfigError, match=rf"--out {address}: .*{problem}"):
        HadoopFiles(spark, address)


def test_a_place_outside_of_what_is_mounted_is_refused(spark, address):
    files = HadoopFiles(spark, mounted(spark, address).replace("/x/", "/y/"))
    with pytest.raises(ConfigError, match=r"is not within a mount point; mount it with"):
        files.create("counts/_delta_log/0.json", b"first")


def settings_file(tmp_path):
    """What ``--config`` names: a secret, and what makes Spark start sooner."""
    conf = {
        "spark.hadoop.fs.azure.account.key.account.dfs.core.windows.net": SECRET,
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    file = tmp_path / "history.toml"
    file.write_text("[conf]\n" + "".join(f"{json.dumps(k)} = {json.dumps(v)}\n" for k, v in conf.items()))
    return file


def history(*words, folder):
    """``kstreams-assign history`` as a process, whose temporary files are in ``folder``."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "kstreams_assign", "history", *map(str, words)]
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.run(command, capture_output=True, text=True, timeout=500, check=False, env=environment, cwd=ROOT)


def test_after_sigkill_a_run_completes_the_tables_and_no_secret_is_left(spark, address, tmp_path, straight):
    file, records = settings_file(tmp_path), tmp_path / "records"
    write_records(records, "a.parquet", BATCHES[0])
    command = [sys.executable, str(SCRIPT), address, str(records), "published task_placements", str(file)]
    own = tmp_path / "temporary"
    own.mkdir()
    environment = {**os.environ, "TMPDIR": str(own)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False, env=environment)
    assert done.returncode == -9, done.stderr
    assert "org.apache.spark.deploy.SparkSubmit" in done.stdout
    killed = copied(spark, address, tmp_path / "killed")
    assert (killed.root / "_state" / LOG).is_dir()
    assert rows(killed)["rebalances"] == []
    write_records(records, "b.parquet", BATCHES[1])
    for number in range(2):
        follow(spark, records, address, tmp_path / f"copy-{number}")
    behind = copied(spark, address, tmp_path / "behind")
    assert rows(behind) == rows(straight)
    assert [text for text in (done.stdout, done.stderr) if SECRET in text] == []
    (log,) = own.glob("kstreams-assign-history-*/_log/spark.log")
    assert [*files_with_it(behind.root), *files_with_it(log.parents[1])] == []


def test_compact_reaches_an_address_by_a_file_of_settings_and_leaves_nothing_here(spark, address, tmp_path):
    before = Layout(tmp_path / "before")
    run(before, cut(fleet(), 4))
    send(spark, before.root, address)
    done = history("compact", "--out", address, "--config", settings_file(tmp_path), folder=tmp_path / "temporary")
    assert done.returncode == 0, done.stderr
    assert " files merged into 1\n" in done.stdout
    assert rows(copied(spark, address, tmp_path / "behind")) == rows(before)
    assert SECRET not in done.stdout + done.stderr
    assert list((tmp_path / "temporary").glob("kstreams-assign-*")) == []
