"""Hadoop's file systems, through the JVM of Spark's driver: the one place that knows their classes and exceptions.

What lives here: files below an address, and the table from Hadoop's errors to ours. What must not: what the files are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from kstreams_assign.errors import ConfigError, KStreamsAssignError, SparkError
from kstreams_assign.history.address import scheme_of
from kstreams_assign.history.mirror import Listed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHOLE_AT_CLOSE = ("s3a", "gs")
"""File systems of objects, where a file appears when it is closed, and whole. Elsewhere others can see a file while it
is written, so it gets its name when it is whole. Delta Lake's own classes for Hadoop make the same difference."""

JARS = {
    # what a file system is called -> the package that has it; {hadoop} is the version of Spark's Hadoop
    "s3a": "org.apache.hadoop:hadoop-aws:{hadoop}",
    "abfs": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "abfss": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "wasb": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "wasbs": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "gs": "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.28",
}

_KEYS = "give its keys as spark.hadoop.fs.{scheme}.* in the table [conf] of the file that --config names"

FAILURES: tuple[tuple[str, type[KStreamsAssignError], str], ...] = (
    # what Hadoop's exception has in its class or text -> our error, and what to do; the first that fits
    (
        r"No AbstractFileSystem",
        ConfigError,
        "name its class: --conf spark.hadoop.fs.AbstractFileSystem.{scheme}.impl=...",
    ),
    (r"No FileSystem for scheme|UnsupportedFileSystem|ClassNotFoundException|NoClassDefFoundError", ConfigError, ""),
    (
        r"[Mm]ount table|mount point|mountpoint|NotInMountpoint",
        ConfigError,
        "mount it with spark.hadoop.fs.viewfs.mounttable.NAME.link./PATH, and name a folder below that path",
    ),
    (r"Permission denied: user=", ConfigError, "give this user the right, or set HADOOP_USER_NAME to one that has it"),
    (r"NoAuthWithAWS|NoAwsCredentials|IMDS", SparkError, f"{_KEYS}; a role's keys may be there the next time"),
    (
        r"AccessDenied|AccessControl|Forbidden|Unauthorized|AuthorizationPermission|Status Code: 40[13]|[Cc]redential",
        ConfigError,
        _KEYS,
    ),
    (r"UnknownStore|NoSuchBucket|FilesystemNotFound|bucket does not exist", ConfigError, "create it, or name another"),
    (r"IllegalArgument|URISyntax|InvalidUri|Incomplete HDFS URI", ConfigError, "name another address"),
    (r"UnknownHost", SparkError, "no such host is known now; start again, or name another address"),
    (r"ReadOnly|UnsupportedOperation", ConfigError, "this file system cannot be written to; name another address"),
    (r"No space left|QuotaExceeded|DSQuota", SparkError, "make room and start again; nothing is lost"),
    (r"", SparkError, "what was committed is whole; start again once the file system answers"),
)


class HadoopFiles:
    """Files below an address, as ``remote.Files`` has it."""

    def __init__(self, session: SparkSession, address: str) -> None:
        """Raises ``ConfigError`` for a file system that Spark does not have."""
        self.address = address
        self._session = session
        context: Any = session.sparkContext
        self._jvm, self._gateway = context._jvm, context._gateway  # noqa: SLF001 - pyspark has no public way
        self._conf = context._jsc.hadoopConfiguration()  # noqa: SLF001
        self._version = self._jvm.org.apache.hadoop.util.VersionInfo.getVersion()
        with self._translated():
            root = self._jvm.org.apache.hadoop.fs.Path(address)
            self._files = root.getFileSystem(self._conf)
            self._base = self._files.makeQualified(root).toString().rstrip("/")

    def exists(self, path: str) -> bool:
        with self._translated():
            return bool(self._files.exists(self._at(path)))

    def list(self, folders: Sequence[str]) -> dict[str, list[Listed]]:
        """List by Spark: one call for each file would take minutes for those of a week."""
        lists: dict[str, list[Listed]] = {folder: [] for folder in sorted(folders, key=len, reverse=True)}
        present = [f"{self.address}/{folder}" for folder in lists if self.exists(folder)]
        if not present:
            return lists
        files: Any = self._session.read.format("binaryFile").option("recursiveFileLookup", "true")
        columns = ("path", "length", "unix_millis(modificationTime) as modified_ms")
        with self._translated():
            rows = files.load(present).selectExpr(*columns).collect()
        for row in rows:
            path = row.path.removeprefix(f"{self._base}/")
            folder = next(each for each in lists if path.startswith(f"{each}/"))  # a log's comes before its table's
            lists[folder].append(Listed(path.removeprefix(f"{folder}/"), row.length, row.modified_ms))
        return lists

    def fetch(self, path: str, target: Path) -> bool:
        with self._translated():
            try:
                self._files.copyToLocalFile(False, self._at(path), self._local(target), True)
            except self._errors() as error:
                if "FileNotFoundException" in _described(error) and not self._files.exists(self._at(path)):
                    return False
                raise
        return True

    def create(self, path: str, content: bytes) -> bool:
        with self._translated():
            try:
                if scheme_of(self.address) in WHOLE_AT_CLOSE:
                    self._write(self._at(path), content)
                else:
                    self._write_and_rename(path, content)
            except self._errors() as error:
                if "FileAlreadyExists" in _described(error):
                    return False
                raise
        return True

    def send(self, source: Path, path: str) -> None:
        with self._translated():
            self._files.copyFromLocalFile(False, True, self._local(source), self._at(path))

    def delete(self, path: str) -> None:
        with self._translated():
            self._files.delete(self._at(path), False)

    def _write(self, path: Any, content: bytes) -> None:
        stream = self._files.create(path, False)
        stream.write(content)
        stream.close()  # after an error it is left open: to close it could show a part as the whole

    def _write_and_rename(self, path: str, content: bytes) -> None:
        written = self._at(f"{path}.{uuid4().hex}.tmp")
        self._write(written, content)
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(written.toUri(), self._conf)
        no_options = self._gateway.new_array(self._jvm.org.apache.hadoop.fs.Options.Rename, 0)  # so never over another
        try:
            context.rename(written, self._at(path), no_options)
        except self._errors():
            self._files.delete(written, False)
            raise

    def _at(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._base}/{path}")

    def _local(self, path: Path) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"file://{path.absolute()}")

    @staticmethod
    def _errors() -> tuple[type[Exception], ...]:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        return Py4JError, PySparkException

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise Hadoop's exceptions in the block as errors of ours; the end of the JVM is none of Hadoop's."""
        from py4j.protocol import Py4JNetworkError

        try:
            yield
        except Py4JNetworkError:
            raise
        except self._errors() as error:
            raise hadoops_failure(self.address, _described(error), self._version) from error


def hadoops_failure(address: str, said: str, hadoop: str) -> KStreamsAssignError:
    """Return our error for one of Hadoop's; ``said`` is its class with its text, ``hadoop`` the version."""
    scheme, line = scheme_of(address), said.strip().partition("\n")[0][:400]
    for pattern, kind, advice in FAILURES:
        if re.search(pattern, said):
            return kind(f"--out {address}: {line}; {advice.format(scheme=scheme) or _missing(scheme, hadoop)}")
    raise AssertionError(said)  # the last pattern fits all


def _missing(scheme: str, hadoop: str) -> str:
    jar = JARS.get(scheme)
    if jar is None:
        return (
            f"Spark has no file system {scheme}: name its package with --conf spark.jars.packages=..., and its class "
            f"with --conf spark.hadoop.fs.{scheme}.impl=..."
        )
    return f"add --conf spark.jars.packages={jar.format(hadoop=hadoop)}"


def _described(error: Exception) -> str:
    """The class of the Java exception and its text."""
    from py4j.protocol import Py4JJavaError

    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.toString())
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
