"""A Spark session for the history, and what becomes of Spark's errors.

What lives here: starting and ending Spark, its settings, and the table from Spark's messages to our errors. What must
not: records and tables. The idea: Spark's JVM writes into a log file of ours instead of the terminal, so the command
line stays readable and an error can quote the one line that matters.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING, Any

from kstreams_assign.adapters.cache import archive_of, archive_options
from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.adapters.java import find_java
from kstreams_assign.errors import (
    BrokerError,
    BrokerUnavailable,
    ConfigError,
    KStreamsAssignError,
    SparkError,
    StateDirectoryLocked,
    missing_extra,
)
from kstreams_assign.history.end_signals import EndSignals
from kstreams_assign.history.secrets import SECRET_NAMES, errors_without, is_secret, secrets_of_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"

_SPARKS_OWN = ("org.apache.hadoop:hadoop-client-api", "org.apache.hadoop:hadoop-client-runtime", "org.slf4j:slf4j-api")
"""What the connector names and Spark brings: 60 MB that need not be fetched."""

_DEBIANS_TRUST = Path("/etc/ssl/certs/java/cacerts")
"""Where Debian's ca-certificates-java keeps the machine's own authorities; a packaged Java does not know of it."""

JAVA_OPTIONS = "spark.driver.extraJavaOptions"

_PYTHON = "spark.pyspark.python"

_PACKAGE_LISTS = {"spark.jars.packages", "spark.jars.excludes"}

_LOOK_EVERY_S, _SETTLED_MS, _SILENT_MS = 0.1, 1_000, 10_000

_END_LIMIT_S = 30.0

SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.redaction.regex": SECRET_NAMES,
    # Internal topics vanish without a word from the connector's own way to look up offsets.
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
    # One group's metadata is up to 1 MB: a batch of the usual 10,000 records could fill the memory.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    # A few hundred are written a day; the default keeps a hundred of each.
    "spark.sql.streaming.minBatchesToRetain": "10",
    # A look-up of offsets that no broker answers is not to be interrupted; the default waits for it for ever.
    "spark.sql.streaming.stopTimeout": "10s",
}


@contextmanager
def spark_session(
    master: str = "local[*]",
    *,
    log: Path,
    settings: Mapping[str, str] | None = None,
    kafka: bool = True,
    end_limit_s: float = _END_LIMIT_S,
) -> Iterator[SparkSession]:
    """Spark, started for the block and ended with it. ``log`` gets what its JVM writes; ``settings`` go over ours.

    With ``kafka`` the connector is brought along (fetched once, by Spark). On a cluster the block begins when executors
    have registered, since work is divided by their cores. The JVM has ``end_limit_s`` seconds to end.

    Raises what ``spark_errors`` does, ``SparkError`` when Spark does not start or cannot have the connector,
    ``ExtraMissing`` when it is not installed, ``ConfigError`` for a master or ``SPARK_HOME`` that is not allowed,
    ``LocalBrokerError`` without a Java.
    """
    all_settings = joined_settings({**SETTINGS, **(_with_connector() if kafka else {})}, settings or {})
    with errors_without(secrets_of_conf(all_settings)), _running(master, log, all_settings, end_limit_s) as session:
        yield session


@contextmanager
def _running(master: str, log: Path, all_settings: Mapping[str, str], end_limit_s: float) -> Iterator[SparkSession]:
    with EndSignals() as signals:
        session = _started(master, log, all_settings, signals, end_limit_s)
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]

        gateway = session.sparkContext._gateway  # noqa: SLF001 - pyspark ends a JVM only with its own process
        try:
            with spark_errors(log):
                if not master.startswith("local") and all_settings.get("spark.dynamicAllocation.enabled") != "true":
                    _await_executors(session, log)
                yield session
        finally:
            with suppress(Py4JError, OSError):  # the JVM may have died: what is raised in the block says why
                session.stop()
            _end(gateway, end_limit_s)


def _started(
    master: str, log: Path, settings: Mapping[str, str], signals: EndSignals, end_limit_s: float
) -> SparkSession:
    try:
        from py4j.protocol import Py4JError
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkRuntimeError
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from error
    java = find_java()
    conf = SparkConf().setMaster(master).setAppName("kstreams-assign history")
    if master.startswith("local"):
        conf.setAll([("spark.driver.host", "127.0.0.1"), ("spark.driver.bindAddress", "127.0.0.1")])
    conf.setAll([*settings.items(), (JAVA_OPTIONS, " ".join([*_java_options(java), settings.get(JAVA_OPTIONS, "")]))])
    # Executors run this very Python, whichever "python3" is on the path. pyspark itself reads the variable alone.
    python = settings.get(_PYTHON) or os.environ.get("PYSPARK_PYTHON") or sys.executable
    # It would print each error on the terminal, with three stack traces, before it raises it; some as the root.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_py4js)
    gateway: Any = None
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output, _environment(JAVA_HOME=str(java.parent.parent), PYSPARK_PYTHON=python):
            begin = output.tell()
            on_command_line = SparkConf(False).setAll([pair for pair in conf.getAll() if not is_secret(pair[0])])
            how = {"stdout": output, "stderr": output}
            with _naming_its_jvm(signals):
                gateway = launch_gateway(on_command_line, how)  # type: ignore[no-untyped-call]
            session = SparkSession(SparkContext(gateway=gateway, conf=conf))
            signals.listen()
            # It would print a stack trace when the JVM ends before it.
            accumulators: Any = session.sparkContext._accumulatorServer  # noqa: SLF001
            accumulators.handle_error = lambda *_: None
            return session
    except (PySparkRuntimeError, Py4JError) as error:
        if gateway is not None:
            _end(gateway, end_limit_s)
        raise start_failure(log.read_bytes()[begin:].decode(errors="replace"), log) from error
    except OSError as error:
        raise launch_failure(error, os.environ.get("SPARK_HOME")) from error


@contextmanager
def _naming_its_jvm(signals: EndSignals) -> Iterator[None]:
    """Let a signal end the JVM from its first moment: pyspark waits for it, and it may fetch its jars for minutes."""
    from pyspark import java_gateway
    from pyspark.errors import PySparkRuntimeError

    def launch(*arguments: Any, **settings: Any) -> Popen[bytes]:
        jvm = Popen(*arguments, **settings)
        signals.ends(jvm)
        return jvm

    pysparks: Any = java_gateway
    before, pysparks.Popen = pysparks.Popen, launch
    try:
        yield
    except PySparkRuntimeError:  # it has ended, and pyspark leaves its pipe open
        signals.forget_jvm()
        raise
    finally:
        pysparks.Popen = before


def _is_not_py4js(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def launch_failure(error: OSError, spark_home: str | None) -> KStreamsAssignError:
    """Return the error for a JVM that the system does not launch, or for a log file that it does not open."""
    if spark_home is not None and Path(str(error.filename)).name == "spark-submit":
        return ConfigError(
            f"SPARK_HOME = {spark_home!r}: {error}; set it to a Spark 4.0 folder that contains bin/spark-submit, "
            "or unset SPARK_HOME to use the installed pyspark"
        )
    return SparkError(f"Spark did not start: {error}")


def start_failure(said: str, log: Path) -> KStreamsAssignError:
    """The error for a JVM that did not get as far as answering; ``said`` is what it wrote."""
    missing = re.findall(r"unresolved dependency: ([^:\s]+)", said) or re.findall(r"download failed: ([^:\s]+)", said)
    if missing:
        return SparkError(
            f"Spark could not fetch a package ({missing[0]}): is there such a one, and a way to a Maven repository? "
            f"Name one with --conf spark.jars.repositories=..., or jars with --conf spark.jars=...; see {log}"
        )
    if "Master must either be" in said or "Could not parse Master URL" in said:
        return ConfigError("--master is not allowed; give local[*], spark://HOST:PORT, yarn or k8s://...")
    if ended := re.findall(r"Application has been killed\. Reason: (.+)", said):
        return SparkError(
            f"the cluster of --master ended the application: {ended[-1]}; if the address is right, the logs of the "
            f"master and its workers say why; see {log}"
        )
    exceptions = re.findall(r"^(?:Exception in thread .main. |Error: )(.+)$", said, re.MULTILINE)
    return SparkError(f"Spark did not start: {exceptions[-1] if exceptions else 'it said nothing'}; see {log}")


_THEIR_PYTHON = (
    "executors need the driver's version of Python, with this package and its extra history; name it with "
    "--conf spark.pyspark.python=PATH"
)

FAILURES: tuple[tuple[str, type[KStreamsAssignError], str], ...] = (
    # what Spark's text has in it -> our error, and what to do; the first that fits
    (r"StateDirectoryLocked: ", StateDirectoryLocked, "end one of the two"),
    (r"errors\.ConfigError: ", ConfigError, "the next run completes the batch"),
    (r"errors\.StateError: ", ConfigError, "name a new folder with --out"),
    (r"errors\.SparkError: ", SparkError, "the next run completes the batch"),
    (
        r"No module named '(?:kstreams_assign|pyarrow)|PYTHON_VERSION_MISMATCH|Cannot run program",
        ConfigError,
        _THEIR_PYTHON,
    ),
    (r"Master removed our application|SparkContext was shut down", SparkError, "see the logs of master and workers"),
    (r"No resolvable bootstrap urls|Invalid url in bootstrap", ConfigError, "--bootstrap-servers names no host"),
    (r"Failed to find data source: kafka", SparkError, "the Kafka connector is missing from Spark's class path"),
    (r"TopicAuthorization|GroupAuthorization|SaslAuthentication|SslAuthentication", BrokerError, "see --client"),
    (r"UnknownTopicOrPartition", BrokerError, "the topic is not there"),
    (r"TimeoutException", BrokerUnavailable, "the broker does not answer in time"),
    (
        r"CONCURRENT_STREAM_LOG_UPDATE|concurrent.*query|Multiple streaming (?:queries|jobs)",
        StateDirectoryLocked,
        "another run works on this --out; end one of the two",
    ),
    (r"No space left on device", SparkError, "make room and start again; nothing is lost"),
)


@contextmanager
def spark_errors(log: Path) -> Iterator[None]:
    """Raise Spark's errors in the block as errors of ours, also those of a JVM that has ended; ``log`` is its log."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:  # plain collections of Spark do not translate Java's exceptions
        raise failure(error, log) from error
    except (Py4JError, ConnectionError) as error:
        raise SparkError(f"Spark's JVM has ended, or answers no more; start again; see {log}") from error


def failure(error: Exception, log: Path) -> KStreamsAssignError:
    """Our error for one of Spark's: a line that says what happened and what to do, the rest in ``log``."""
    said = str(error)
    line = _telling_line(said)
    for pattern, kind, advice in FAILURES:
        if re.search(pattern, said):
            return kind(f"{line}: {advice}; see {log}")
    return SparkError(f"Spark gave up: {line}; see {log}")


def _telling_line(said: str) -> str:
    """The innermost cause that Spark names: Python's or Java's last exception line."""
    causes = re.findall(
        r"^(?:Caused by: )?[\w.$]*(?:Error|Exception|Missing|Unavailable|Locked)\b: .+$", said, re.MULTILINE
    )
    return (causes[-1] if causes else said.strip().partition("\n")[0]).removeprefix("Caused by: ")[:400]


def joined_settings(ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """Return our settings with theirs over them. Lists of packages are joined: theirs do not replace the connector.

    Of a package in both lists, their version counts.
    """
    joined = {**ours, **theirs}
    for name in _PACKAGE_LISTS & ours.keys() & theirs.keys():
        packages = {}
        for package in f"{ours[name]},{theirs[name]}".split(","):
            if package.strip():
                packages[tuple(package.strip().split(":")[:2])] = package.strip()
        joined[name] = ",".join(packages.values())
    return joined


def _with_connector() -> dict[str, str]:
    return {"spark.jars.packages": CONNECTOR, "spark.jars.excludes": ",".join(_SPARKS_OWN)}


def _java_options(java: Path) -> list[str]:
    trust = [f"-Djavax.net.ssl.trustStore={_DEBIANS_TRUST}"] if _DEBIANS_TRUST.exists() else []
    return [*trust, *map(shlex.quote, archive_options(archive_of_spark(java)))]


def archive_of_spark(java: Path) -> Path:
    """Return where the archive of Spark's classes for this Java is, if there is one (``history.archive``)."""
    import pyspark

    jars = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"
    return archive_of(java, f"{jars} {jars.stat().st_mtime_ns if jars.is_dir() else ''}")


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set variables for the block: Spark's scripts look for Java there alone, and pyspark for the executors' Python."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


def _await_executors(session: SparkSession, log: Path) -> None:
    """Wait until executors have registered, and no other follows within a second.

    Otherwise the first job would be divided as if there were two cores. Raises ``SparkError`` if the cluster ends the
    application.
    """
    context: Any = session.sparkContext._jsc.sc()  # noqa: SLF001 - pyspark does not show executors
    said_ms = changed_ms = monotonic_ms()
    executors = 0
    while not executors or monotonic_ms() - changed_ms < _SETTLED_MS:
        if context.isStopped():
            raise SparkError(f"the Spark cluster ended the application before it had an executor; see {log}")
        present = len(context.statusTracker().getExecutorInfos()) - 1  # the driver is listed, too
        if present != executors:
            executors, changed_ms = present, monotonic_ms()
        if not executors and monotonic_ms() - said_ms >= _SILENT_MS:
            said_ms = monotonic_ms()
            print(f"waiting for an executor: are cores and memory free? See {log}", file=sys.stderr, flush=True)
        threading.Event().wait(_LOOK_EVERY_S)


def _end(gateway: object, limit_s: float) -> None:
    """End the JVM and wait for it: a second session in this process gets one of its own."""
    from pyspark import SparkContext

    process = gateway.proc  # type: ignore[attr-defined]
    gateway.shutdown()  # type: ignore[attr-defined]
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - no public way to say that it ended
    process.stdin.close()
    process.wait(timeout=limit_s)
