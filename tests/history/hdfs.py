"""HDFS on this machine: a name node and a data node in one process, from Hadoop's own package for tests.

PySpark brings Hadoop's client; ``hdfs.lock`` names what the servers need besides, 40 MB in the embedded broker's cache.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from kstreams_assign.adapters.java import find_java
from kstreams_assign.history.layout import Layout
from kstreams_assign.local.jars import class_path, locked_jars
from kstreams_assign.local.process import ChildProcess
from kstreams_assign.local.server import joined
from tests.worker.app import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCK = Path(__file__).with_name("hdfs.lock")
MAIN = "org.apache.hadoop.test.MiniDFSClusterManager"
QUICK = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
START_LIMIT_S = 120.0


@contextmanager
def hdfs(folder: Path) -> Iterator[str]:
    """An empty file system for the block: its address. ``folder`` has its blocks and its log."""
    details = folder / "details.json"
    jars = [*class_path(locked_jars(LOCK)), Path(pyspark.__file__).parent / "jars" / "*"]
    java = [str(find_java()), *QUICK, f"-Dtest.build.data={folder}", "-cp", joined(jars)]
    command = ["/usr/bin/env", f"--chdir={folder}", *java, MAIN, "-format", "-writeDetails", str(details)]
    holds = os.open(os.devnull, os.O_RDONLY)
    try:
        process = ChildProcess(command, folder / "log", tied=True, holds=holds)
    finally:
        os.close(holds)
    try:
        until(lambda: _port(details) is not None or process.ended.is_set(), START_LIMIT_S)
        assert not process.ended.is_set(), (folder / "log").read_text()
        yield f"hdfs://127.0.0.1:{_port(details)}"
    finally:
        process.kill()


def _port(details: Path) -> int | None:
    """The name node's port, once the file is there and whole."""
    with suppress(FileNotFoundError, json.JSONDecodeError):
        port: int = json.loads(details.read_text())["namenode_port"]
        return port
    return None


def copied(spark: SparkSession, address: str, folder: Path) -> Layout:
    """Copy what is at the address into the folder, which is not there yet."""
    _copy(spark, "copyToLocalFile", address, f"file://{folder}", True)
    return Layout(folder)


def send(spark: SparkSession, folder: Path, address: str) -> None:
    """Copy the folder to the address."""
    _copy(spark, "copyFromLocalFile", f"file://{folder}", address)


def _copy(spark: SparkSession, method: str, source: str, target: str, *more: bool) -> None:
    jvm, context = spark.sparkContext._jvm, spark.sparkContext._jsc
    assert jvm is not None
    paths = [jvm.org.apache.hadoop.fs.Path(place) for place in (source, target)]
    (remote,) = (path for path in paths if not path.toString().startswith("file:"))
    getattr(remote.getFileSystem(context.hadoopConfiguration()), method)(False, *paths, *more)
