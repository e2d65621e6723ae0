"""The archive of Spark's classes: made for all runs, used by sessions, passed over where it does not fit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kstreams_assign.adapters.java import find_java
from kstreams_assign.errors import SparkError
from kstreams_assign.history import archive
from kstreams_assign.history.session import archive_of_spark

COUNT = """
import sys
from pathlib import Path
from kstreams_assign.history.session import spark_session

with spark_session("local[1]", log=Path(sys.argv[1]), kafka=False) as session:
    print(session.range(3).count())
    java = session.sparkContext._jvm.java.lang
    print(*java.management.ManagementFactory.getRuntimeMXBean().getInputArguments(), sep="\\n")
"""
"""Count to three with Spark, and print with which options its JVM runs."""


def test_it_is_made_once_and_a_session_uses_it(spark, capsys):
    made = archive.make_archive()
    assert (made, capsys.readouterr().err) == (archive_of_spark(find_java()), "")
    java = spark.sparkContext._jvm.java.lang.ProcessHandle.current()
    assert str(made) in Path(f"/proc/{java.pid()}/maps").read_text(encoding="utf-8")


@pytest.mark.usefixtures("spark")
def test_spark_starts_without_one_that_does_not_fit_wherever_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("KSTREAMS_ASSIGN_CACHE", str(tmp_path / "a user's cache"))
    unfit = archive_of_spark(find_java())
    unfit.parent.mkdir(parents=True)
    unfit.write_bytes(b"x" * 10_000)
    command = [sys.executable, "-c", COUNT, str(tmp_path / "spark.log")]
    counted, *options = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert counted == "3"
    assert f"-XX:SharedArchiveFile={unfit}" in options


def test_a_java_that_makes_none_is_reported_with_its_log(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KSTREAMS_ASSIGN_CACHE", str(tmp_path))
    monkeypatch.setattr(archive, "_record", lambda _archive, log: log.write_text("no room"))
    with pytest.raises(SparkError, match=r"made no archive of its classes; see (.+\.log)$") as failed:
        archive.make_archive()
    assert Path(str(failed.value).rpartition(" ")[2]).read_text(encoding="utf-8") == "no room"
    assert [path.suffix for path in (tmp_path / "archives").iterdir()] == [".log"]
    assert "preparing faster starts of Spark (once)" in capsys.readouterr().err
