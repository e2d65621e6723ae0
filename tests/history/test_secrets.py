"""A secret in the settings of ``history follow`` is in no line, log, table, checkpoint or command line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from kstreams_assign.client_settings import refuse_settings
from kstreams_assign.errors import ConfigError, SparkError
from kstreams_assign.history.command import app
from kstreams_assign.history.layout import Layout
from kstreams_assign.history.live import Asked
from kstreams_assign.history.secrets import errors_without, is_secret, read_settings, secrets_of_conf
from kstreams_assign.history.source import java_settings
from tests.history import sign_in_driver
from tests.history.marker import SECRET, command_lines, files_with_it
from tests.history.play import cut, fleet, write_records
from tests.installed import ROOT

NO_BROKER = "127.0.0.1:1"
LOGS_MUCH = """
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
logger.kafka.name = org.apache.kafka
logger.kafka.level = info
logger.spark.name = org.apache.spark
logger.spark.level = info
"""
"""Spark's default shows warnings alone."""
QUICK = ("--master", "local[1]", "--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1")


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("spark.hadoop.fs.s3a.secret.key", True),
        ("spark.hadoop.fs.s3a.access.key", True),
        ("spark.hadoop.fs.s3a.session.token", True),
        ("spark.ssl.keyPassword", True),
        ("kafka.sasl.jaas.config", True),
        ("spark.hadoop.fs.s3a.encryption.key", True),
        ("spark.hadoop.fs.azure.account.key.name.dfs.core.windows.net", True),
        ("spark.hadoop.fs.azure.sas.container.name.blob.core.windows.net", True),
        ("spark.hadoop.fs.azure.sas.fixed.token.name.dfs.core.windows.net", True),
        ("spark.hadoop.fs.azure.account.oauth2.client.secret", True),
        ("spark.hadoop.fs.azure.encryption.encoded.client-provided-key.name.dfs.core.windows.net", True),
        ("spark.hadoop.fs.gs.auth.service.account.private.key", True),
        ("spark.hadoop.fs.gs.auth.service.account.private.key.id", True),
        ("spark.hadoop.google.cloud.auth.service.account.private.key", True),
        ("spark.hadoop.fs.gs.auth.service.account.email", False),
        ("spark.hadoop.fs.s3a.endpoint", False),
        ("spark.hadoop.fs.azure.account.auth.type", False),
        ("spark.cores.max", False),
        ("spark.jars.packages", False),
    ],
)
def test_the_names_of_secrets(name, secret):
    assert is_secret(name) == secret
    assert secrets_of_conf({name: "value"}) == ({"value"} if secret else frozenset())


def test_an_error_is_shown_without_the_secret_and_keeps_its_kind():
    with pytest.raises(SparkError, match=r"^Spark gave up: wrong \(not shown\); see log$"), errors_without({SECRET}):
        raise SparkError(f"Spark gave up: wrong {SECRET}; see log")


def test_a_file_has_the_settings_of_clients_and_spark(tmp_path):
    file = tmp_path / "follow.toml"
    file.write_text(f'[client]\n"sasl.password" = "{SECRET}"\n[conf]\n"spark.cores.max" = "4"\n', encoding="utf-8")
    settings = read_settings(file)
    assert settings.client == {"sasl.password": SECRET}
    assert settings.conf == {"spark.cores.max": "4"}
    assert SECRET not in repr(settings)
    assert SECRET not in repr(Asked(tmp_path, conf={"spark.x.password": SECRET}))


def test_the_file_of_the_guide_is_taken(tmp_path):
    guide = Path(__file__).parents[2] / "docs" / "how-to" / "history.md"
    (block,) = re.findall(r"^```toml\n(.*?)^```$", guide.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    file = tmp_path / "history.toml"
    file.write_text(block, encoding="utf-8")
    settings = read_settings(file)
    refuse_settings(settings.client, with_kafka_python=False)
    assert "sasl.jaas.config" in " ".join(java_settings(settings.client))
    assert settings.conf


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f'client = "{SECRET}"', "'client' is not allowed; it has the tables"),
        (f'[spark]\na = "{SECRET}"', "'spark' is not allowed; it has the tables"),
        (f'[conf]\nspark.x.password = "{SECRET}"', r"'spark' of \[conf\] must be a text in quotes"),
        (f'[client]\n"sasl.password" = "{SECRET}', r"is not TOML \(at end of document\)$|is not TOML \(at line"),
        (None, "cannot be read"),
    ],
)
def test_a_wrong_file_is_refused_without_its_values(tmp_path, text, problem):
    file = tmp_path / "follow.toml"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=problem) as refused:
        read_settings(file)
    assert SECRET not in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


@pytest.mark.parametrize("option", ["--client", "--conf"])
def test_a_setting_that_cannot_be_read_is_not_shown(tmp_path, option):
    words = ["follow", "--out", str(tmp_path), "-b", NO_BROKER, option, SECRET]
    with pytest.raises(ConfigError, match="write KEY=VALUE") as refused:
        CliRunner().invoke(app, words, catch_exceptions=False)
    assert SECRET not in str(refused.value)


def follow(tmp_path, *words):
    """The command as a process; what it printed, and the command lines that were seen of it and its children."""
    file = tmp_path / "follow.toml"
    secrets = f'[client]\n"sasl.password" = "{SECRET}"\n"sasl.username" = "me"\n"sasl.mechanism" = "PLAIN"\n'
    secrets += f'"security.protocol" = "SASL_PLAINTEXT"\n[conf]\n"spark.hadoop.fs.s3a.secret.key" = "{SECRET}"\n'
    file.write_text(secrets, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "kstreams_assign",
        "history",
        "follow",
        "--config",
        file,
        "--out",
        tmp_path / "out",
    ]
    seen: set[str] = set()
    with subprocess.Popen(
        [*command, "--out", tmp_path / "out", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        assert running.stdout is not None
        lines = []
        for line in running.stdout:  # from "reading ..." on, Spark runs
            lines.append(line)
            seen |= command_lines([psutil.Process(os.getpid())])
    return running.returncode, "".join(lines), seen


@pytest.mark.spark
@pytest.mark.timeout(500)  # it has a Spark of its own
def test_a_run_leaves_it_nowhere(tmp_path):
    write_records(tmp_path / "records", "a.parquet", cut(fleet(groups=2), 1)[0])
    status, printed, seen = follow(tmp_path, "--records", tmp_path / "records", "--once", "--json-log", *QUICK)
    assert status == 0, printed
    assert '"event": "history_batch"' in printed
    assert any("org.apache.spark.deploy.SparkSubmit" in line for line in seen)
    assert [line for line in (printed, *seen) if SECRET in line] == []
    assert files_with_it(tmp_path / "out") == []


@pytest.mark.spark
@pytest.mark.timeout(500)  # it has a Spark of its own
@pytest.mark.parametrize(
    "words",
    [
        ("-b", NO_BROKER),
        ("--records", "missing", "--once"),
        ("--records", ".", "--once", "--master", "nothing"),
        ("--records", ".", "--once", *QUICK, "--conf", "spark.executor.memory=none"),
    ],
    ids=["no broker", "no records", "no such master", "Spark does not start"],
)
def test_a_run_that_fails_does_not_print_it(tmp_path, words):
    status, printed, seen = follow(tmp_path, *words)
    assert status in (2, 3), printed
    assert printed
    assert [line for line in (printed, *seen) if SECRET in line] == []
    assert files_with_it(tmp_path / "out") == []


@pytest.mark.timeout(500)  # it has a Spark of its own
def test_spark_that_cannot_sign_in_at_a_broker_does_not_log_it(broker, tmp_path):
    """The broker has no SASL, so the handshake fails; Spark logs at INFO, which shows more than its default."""
    out, logging = tmp_path / "out", tmp_path / "log4j2.properties"
    logging.write_text(LOGS_MUCH, encoding="utf-8")
    command = [sys.executable, "-m", sign_in_driver.__name__, broker, str(out), str(logging)]
    done = subprocess.run(command, input=SECRET, capture_output=True, text=True, cwd=ROOT, timeout=450, check=True)
    assert re.match("(BrokerError|SparkError): ", done.stdout), done
    assert SECRET not in done.stdout + done.stderr
    assert "sasl.jaas.config = [hidden]" in Layout(out).log.read_text(encoding="utf-8", errors="replace")
    assert files_with_it(out) == []


def test_spark_itself_hides_a_setting_that_its_default_would_show(spark):
    spark.conf.set("spark.x.jaas", SECRET)
    try:
        (shown,) = [row.value for row in spark.sql("SET").collect() if row.key == "spark.x.jaas"]
    finally:
        spark.conf.unset("spark.x.jaas")
    assert shown == "*********(redacted)"
