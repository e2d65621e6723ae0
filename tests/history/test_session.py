"""What Spark says, as one line of ours."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError

from kstreams_assign.cli import exit_status
from kstreams_assign.errors import (
    BrokerError,
    BrokerUnavailable,
    ConfigError,
    KStreamsAssignError,
    SparkError,
    StateDirectoryLocked,
)
from kstreams_assign.history import session as sessions
from kstreams_assign.history.follow import follow_until_done
from kstreams_assign.history.layout import Layout
from kstreams_assign.history.session import (
    failure,
    joined_settings,
    launch_failure,
    spark_session,
    start_failure,
)

LOG = Path("spark.log")

NO_CONNECTOR = """
		:: org.apache.spark#spark-sql-kafka-0-10_2.13;4.0.0: not found
Exception in thread "main" java.lang.RuntimeException: \
[unresolved dependency: org.apache.spark#spark-sql-kafka-0-10_2.13;4.0.0: not found]
	at org.apache.spark.util.MavenUtils$.resolveMavenCoordinates(MavenUtils.scala:540)
"""
WRONG_MASTER = """
Exception in thread "main" org.apache.spark.SparkException: \
Master must either be yarn or start with spark, k8s, or local
"""
NO_MEMORY = """
Error occurred during initialization of VM
Exception in thread "main" java.lang.OutOfMemoryError: Java heap space
"""
NO_MASTER = """
26/11/26 10:09:21 ERROR StandaloneSchedulerBackend: \
Application has been killed. Reason: All masters are unresponsive! Giving up.
"""


@pytest.mark.parametrize(
    ("said", "kind", "text"),
    [
        (NO_CONNECTOR, SparkError, r"could not fetch a package \(org.apache.spark#spark-sql-kafka.*--conf"),
        (WRONG_MASTER, ConfigError, r"--master is not allowed; give local\[\*\]"),
        (NO_MASTER, SparkError, "the cluster of --master ended the application: All masters are unresponsive! Giving"),
        (NO_MEMORY, SparkError, "did not start: java.lang.OutOfMemoryError: Java heap space; see spark.log"),
        ("", SparkError, "did not start: it said nothing; see spark.log"),
    ],
)
def test_a_spark_that_does_not_start_says_why_in_one_line(said, kind, text):
    error = start_failure(said, LOG)
    assert type(error) is kind
    with pytest.raises(kind, match=text):
        raise error
    assert "\n" not in str(error)


CONNECTORS = {"spark.jars.packages": "org.apache.spark:kafka:4.0.0", "spark.jars.excludes": "a:b", "spark.x": "1"}


@pytest.mark.parametrize(
    ("theirs", "joined"),
    [
        ({}, CONNECTORS),
        ({"spark.x": "2"}, {**CONNECTORS, "spark.x": "2"}),
        (
            {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.4.1, x:y:1", "spark.jars.excludes": "c:d"},
            {
                "spark.jars.packages": "org.apache.spark:kafka:4.0.0,org.apache.hadoop:hadoop-aws:3.4.1,x:y:1",
                "spark.jars.excludes": "a:b,c:d",
                "spark.x": "1",
            },
        ),
        (
            {"spark.jars.packages": "org.apache.spark:kafka:4.0.1"},
            {**CONNECTORS, "spark.jars.packages": "org.apache.spark:kafka:4.0.1"},
        ),
        ({"spark.jars.packages": ""}, CONNECTORS),
    ],
)
def test_packages_of_the_caller_do_not_replace_the_connector(theirs, joined):
    assert joined_settings(CONNECTORS, theirs) == joined


def test_without_the_connector_the_packages_are_those_of_the_caller():
    assert joined_settings({}, {"spark.jars.packages": "x:y:1"}) == {"spark.jars.packages": "x:y:1"}


@pytest.mark.parametrize("fault", ["missing", "not executable", "empty"])
def test_a_wrong_spark_home_is_refused_by_name(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = tmp_path / "spark"
    if fault == "not executable":
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "spark-submit").write_text("#!/bin/sh\n")
    monkeypatch.setenv("SPARK_HOME", "" if fault == "empty" else str(home))
    monkeypatch.chdir(tmp_path)
    with (
        pytest.raises(KStreamsAssignError) as refused,
        spark_session("local[1]", log=tmp_path / "spark.log", kafka=False),
    ):
        pass
    assert exit_status(refused.type) == 2
    assert f"SPARK_HOME = {os.environ['SPARK_HOME']!r}: " in str(refused.value)
    assert "unset SPARK_HOME" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_log_that_cannot_be_written_is_not_blamed_on_spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    (tmp_path / "file").touch()
    with (
        pytest.raises(SparkError, match=r"did not start: .*File exists: .*file") as failed,
        spark_session("local[1]", log=tmp_path / "file" / "spark.log", kafka=False),
    ):
        pass
    assert exit_status(failed.type) == 3
    assert "SPARK_HOME" not in str(failed.value)


def test_a_spark_submit_that_cannot_run_is_not_blamed_on_a_spark_home_that_is_not_set():
    error = launch_failure(PermissionError(13, "Permission denied", "pyspark/./bin/spark-submit"), None)
    assert type(error) is SparkError
    assert "Permission denied: 'pyspark/./bin/spark-submit'" in str(error)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Caused by: org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node", BrokerUnavailable),
        ("org.apache.kafka.common.config.ConfigException: No resolvable bootstrap urls given", ConfigError),
        ("org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed", BrokerError),
        ("org.apache.spark.SparkException: Failed to find data source: kafka. Deploy", SparkError),
        ("java.io.IOException: No space left on device", SparkError),
        ("ModuleNotFoundError: No module named 'kstreams_assign'", ConfigError),
        ("pyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has 3.12", ConfigError),
        ('java.io.IOException: Cannot run program "/nowhere/python": error=2', ConfigError),
        ("kstreams_assign.errors.ConfigError: --out history: an executor wrote members/a.parquet", ConfigError),
        ("kstreams_assign.errors.StateError: this state of the history was written by another release", ConfigError),
        ("org.apache.spark.SparkException: Job aborted: Master removed our application: FAILED", SparkError),
        (
            "spark.SparkConcurrentModificationException: [CONCURRENT_STREAM_LOG_UPDATE] Multiple streaming jobs for 7",
            StateDirectoryLocked,
        ),
        ("kstreams_assign.errors.SparkError: --out s3a://b/h: java.net.SocketTimeoutException: Read", SparkError),
        ("an error that is not known", SparkError),
    ],
)
def test_a_query_that_fails_is_one_of_our_errors(said, kind):
    error = failure(RuntimeError(f"[STREAM_FAILED] Query terminated\n{said}\n\tat somewhere"), LOG)
    assert type(error) is kind
    assert said.removeprefix("Caused by: ") in str(error) or kind is SparkError
    assert "see spark.log" in str(error)
    assert "\n" not in str(error)


def test_a_jvm_that_has_died_is_one_of_our_errors():
    class Dead:
        @property
        def isActive(self):  # noqa: N802 - as pyspark has it
            raise Py4JNetworkError("Answer from Java side is empty")

    with pytest.raises(SparkError, match=r"Spark's JVM has ended, or answers no more; start again; see \S+spark.log"):
        follow_until_done(Dead(), Layout(Path("out")), lambda _: None)


@pytest.mark.parametrize("error", [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111, "")])
def test_a_block_that_meets_a_jvm_that_has_died_names_the_log(monkeypatch, error):
    def stop():
        raise error

    dead = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=None), stop=stop)
    monkeypatch.setattr(sessions, "_started", lambda *_: dead)
    monkeypatch.setattr(sessions, "_end", lambda *_: None)
    with (
        pytest.raises(SparkError, match=r"Spark's JVM has ended, or answers no more; start again; see spark.log"),
        spark_session("local[1]", log=LOG, kafka=False),
    ):
        raise error


def test_the_line_that_is_quoted_is_the_innermost_cause():
    said = "Traceback\nValueError: outer\npy4j.Py4JException: x\nCaused by: java.io.EOFException: inner\n\tat y"
    assert "java.io.EOFException: inner" in str(failure(RuntimeError(said), LOG))
