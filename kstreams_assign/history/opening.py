"""Tables opened where ``--out`` says: in a folder, or at an address, which takes a Spark and a folder for a copy.

What lives here: how long a copy and its Spark live. What must not: what is read or written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from kstreams_assign.history.address import Out, is_address
from kstreams_assign.history.end_signals import ended_by_sigterm
from kstreams_assign.history.hadoop import HadoopFiles
from kstreams_assign.history.layout import Layout, folder_of
from kstreams_assign.history.remote import RemoteStore
from kstreams_assign.history.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def working_folder(out: Out) -> Iterator[Path]:
    """The folder of the tables; for an address one of its own for the block. After an error, its logs stay there.

    Raises ``ConfigError`` for a folder that cannot have tables.
    """
    if not is_address(out):
        yield folder_of(out)
        return
    folder = Path(mkdtemp(prefix="kstreams-assign-history-"))
    try:
        with ended_by_sigterm():
            yield folder
    except BaseException:
        _remove(folder, but=Layout(folder).log.parent)
        raise
    _remove(folder)


@contextmanager
def opened(session: SparkSession, out: Out, folder: Path) -> Iterator[Layout]:
    """The tables at ``out``; those at an address with a copy of their logs in ``folder``, for the block.

    Raises ``ConfigError`` for a file system that Spark does not have.
    """
    if not is_address(out):
        yield Layout(folder)
        return
    store = RemoteStore(HadoopFiles(session, str(out)))
    try:
        yield Layout(folder, store)
    finally:
        store.close()


@contextmanager
def for_reading(out: Out, conf: Mapping[str, str]) -> Iterator[Layout]:
    """The tables at ``out`` for a command that needs Spark for nothing but the file system of an address."""
    with working_folder(out) as folder:
        if not is_address(out):
            yield Layout(folder)
            return
        print(f"starting Spark for {out}, which takes some seconds", file=sys.stderr, flush=True)
        log = Layout(folder).log
        with (
            spark_session("local[1]", log=log, settings=conf, kafka=False) as session,
            opened(session, out, folder) as layout,
        ):
            yield layout


def _remove(folder: Path, but: Path | None = None) -> None:
    for path in folder.iterdir():
        if path.is_dir() and path != but:
            rmtree(path)
        elif path != but:
            path.unlink()
    if but is None or not but.exists():
        folder.rmdir()
