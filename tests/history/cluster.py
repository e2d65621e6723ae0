"""A Spark standalone cluster on this machine: a master and workers as processes, from PySpark's own distribution.

For the tests and for ``bench.history``. Each worker may have a ``python`` of its own on the path of its executors: then
``EXECUTORS_PYTHON`` as ``spark.pyspark.python`` is another environment on each worker. Everything listens on 127.0.0.1,
on ports that the system chooses, and ends with the process that started it.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

from kstreams_assign.adapters.cache import archive_options
from kstreams_assign.adapters.java import find_java
from kstreams_assign.history.session import archive_of_spark
from kstreams_assign.local.process import ChildProcess

HOST = "127.0.0.1"
START_LIMIT_S = 200.0
"""Also on a machine that does ten other things."""

EXECUTORS_PYTHON = "python"
"""Each worker looks it up on the path that it was started with."""

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
DRIVER = {"spark.driver.host": HOST, "spark.driver.bindAddress": HOST}

_SPARK = Path(pyspark.__file__).parent
_JVM = (
    "-Xmx192m",
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
)
_STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile(r"Successfully registered with master")


def driver_settings() -> dict[str, str]:
    """Spark's settings of a driver on such a cluster."""
    return {
        **DRIVER,
        "spark.pyspark.python": EXECUTORS_PYTHON,
        "spark.driver.extraJavaOptions": QUICK_JVM,
        "spark.executor.extraJavaOptions": " ".join(_executors_java()),
        "spark.executor.memory": "512m",
    }


def _executors_java() -> list[str]:
    return [*QUICK_JVM.split(), *archive_options(archive_of_spark(find_java()))]


@dataclass(frozen=True)
class Cluster:
    """A running cluster: its ``--master``, the processes of its workers, and the folder of all logs and work."""

    url: str
    workers: Sequence[psutil.Process]
    folder: Path

    def executors(self) -> list[psutil.Process]:
        """The JVMs of all executors that run now."""
        return [child for worker in self.workers for child in _children(worker)]

    def memory(self) -> list[int]:
        """Resident bytes of each executor: its JVM and the Python processes that it has started."""
        return [_resident(executor) for executor in self.executors()]


@contextmanager
def spark_cluster(folder: Path, pythons: Sequence[Path], cores: int = 1, memory: str = "1g") -> Iterator[Cluster]:
    """Run a master and a worker for each of ``pythons`` for the block; logs and work go to ``folder``.

    ``cores`` and ``memory`` are those that each worker offers.
    """
    with ExitStack() as ends:
        master = ends.enter_context(_daemon(folder, "master", [*_listen("master.Master"), "--webui-port", "0"]))
        url = _await(folder / "master.log", _STARTED, master)
        workers = []
        for number, python in enumerate(pythons, 1):
            offers = [
                "--webui-port",
                "0",
                "--cores",
                str(cores),
                "--memory",
                memory,
                "--work-dir",
                str(folder / f"work-{number}"),
            ]
            command = [*_listen("worker.Worker"), *offers, url]
            workers.append(ends.enter_context(_daemon(folder, f"worker-{number}", command, python)))
        for number, worker in enumerate(workers, 1):
            _await(folder / f"worker-{number}.log", _REGISTERED, worker)
        yield Cluster(url, [psutil.Process(worker.pid) for worker in workers], folder)


def _listen(name: str) -> list[str]:
    return [f"org.apache.spark.deploy.{name}", "--host", HOST, "--port", "0"]


@contextmanager
def _daemon(folder: Path, name: str, command: Sequence[str], python: Path | None = None) -> Iterator[ChildProcess]:
    """A daemon of Spark for the block, with ``python`` first on its path; its executors end before it."""
    folder.mkdir(parents=True, exist_ok=True)
    jars = f"{_SPARK / 'conf'}:{_SPARK / 'jars'}/*"
    path = os.environ["PATH"] if python is None else f"{python.parent}:{os.environ['PATH']}"
    variables = {"SPARK_HOME": _SPARK, "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": HOST, "PATH": path}
    environment = ["/usr/bin/env", *(f"{name}={value}" for name, value in variables.items())]
    holds = os.open(os.devnull, os.O_RDONLY)
    try:
        java = [str(find_java()), *_JVM, *_executors_java(), "-cp", jars]
        daemon = ChildProcess([*environment, *java, *command], folder / f"{name}.log", tied=True, holds=holds)
    finally:
        os.close(holds)
    try:
        yield daemon
    finally:
        executors = _children(psutil.Process(daemon.pid)) if not daemon.ended.is_set() else []
        daemon.terminate(30)
        for process in psutil.wait_procs(executors, timeout=30)[1]:
            process.kill()


def _children(worker: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return [child for child in worker.children() if child.name() == "java"]
    return []


def _resident(executor: psutil.Process) -> int:
    total = 0
    with suppress(psutil.NoSuchProcess):
        for process in (executor, *executor.children(recursive=True)):
            total += process.memory_info().rss
    return total


def _await(log: Path, line: re.Pattern[str], daemon: ChildProcess) -> str:
    """Wait for a line in a daemon's log; return its group, if it has one."""
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        if match := line.search(said):
            return match[match.lastindex or 0]
        assert not daemon.ended.is_set(), said
        assert time.monotonic() < deadline, said
        threading.Event().wait(0.1)
