"""Tables in a file system that this machine does not mount: the driver's folder is a copy of their logs.

What lives here: what is fetched and sent when, and how a commit is made there. What must not: the file system itself
(``hadoop``), and rules about names in a log (``mirror``). The idea: Delta Lake's library commits to the copy. The
commit counts once its entry is created at the address, which fails if there is one: then another run was first, and the
copy takes that run's entry instead. Files of rows are sent before the entry that names them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Protocol

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.fs as pf  # type: ignore[import-untyped]

from kstreams_assign.errors import KStreamsAssignError
from kstreams_assign.history import mirror
from kstreams_assign.history.mirror import HINT, Listed
from kstreams_assign.history.store import LOG, AsOf

TRANSFERS = 16
"""Files on their way at the same time: they are small, so most of the time is waiting."""


class Files(Protocol):
    """A file system below an address; paths are relative to it. Raises errors of ``errors``."""

    @property
    def address(self) -> str: ...

    def exists(self, path: str) -> bool: ...

    def list(self, folders: Sequence[str]) -> dict[str, list[Listed]]:
        """List the files below each folder; none if there is no such folder. Hidden ones may be left out."""

    def fetch(self, path: str, target: Path) -> bool:
        """Copy a file to this machine. Return False if there is no such file."""

    def create(self, path: str, content: bytes) -> bool:
        """Create a whole file, or none. Return False if there is one of that name."""

    def send(self, source: Path, path: str) -> None:
        """Copy a file of this machine there, also over one of that name. Others may see a part of it meanwhile."""

    def delete(self, path: str) -> None:
        """Delete a file if there is one."""


class RemoteStore:
    """The tables at the address of ``files``. A folder's name is that of its table."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._newest: dict[str, int] = {}  # table -> its newest version that the copy and the address both have
        self._lists: dict[str, list[Listed]] = {}  # of ``listed_once``
        self._pool = ThreadPoolExecutor(TRANSFERS, "history-transfer")
        self.failed: KStreamsAssignError | None = None

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    @property
    def address(self) -> str:
        return self._files.address

    def has(self, folder: Path) -> bool:
        return self._files.exists(folder.name)

    def fetch_log(self, folder: Path, as_of: AsOf = None) -> None:
        log = folder / LOG
        log.mkdir(parents=True, exist_ok=True)
        if as_of is not None:
            self._fetch_older(log, as_of)
            return
        newest = self._newest.get(folder.name)
        if newest is None:
            newest = self._fetch_newest_checkpoint(log)
        while self._fetch_to_log(log, mirror.entry(newest + 1)):
            newest += 1
        self._newest[folder.name] = newest

    def send_log(self, folder: Path) -> bool:
        log = folder / LOG
        for name in mirror.unsent(_names(log), self._newest[folder.name]):
            version = mirror.version_of(name)
            if version is None:
                self._files.send(log / name, _remote(log, name))
                continue
            created = self._files.create(_remote(log, name), (log / name).read_bytes())
            if name != mirror.entry(version):
                continue  # a checkpoint that another run has made of the version has the same in it
            if not created and not self._is_ours(log / name):
                for refused in mirror.refused(_names(log), version):
                    (log / refused).unlink()
                self.fetch_log(folder)
                return False
            self._newest[folder.name] = version
        return True

    def expire_log(self, folder: Path, cutoff_ms: int) -> None:
        log = folder / LOG
        expired = mirror.expired(self._list(_remote(log)), cutoff_ms)
        self._each(lambda name: self._files.delete(_remote(log, name)), expired)
        names = _names(log)
        readable = mirror.files_of(names, self._newest[folder.name])
        for name in set(names) - {*(readable or names), HINT}:  # of the copy, only the newest version is read
            (log / name).unlink()

    def fetch(self, folder: Path, paths: Iterable[str]) -> None:
        self._each(lambda path: self._fetch_rows(folder, path), paths)

    def send(self, folder: Path, paths: Iterable[str]) -> None:
        def move(path: str) -> None:
            self._files.send(folder / path, _remote(folder, path))
            (folder / path).unlink()

        self._each(move, paths)

    def delete(self, folder: Path, paths: Iterable[str]) -> None:
        def delete(path: str) -> None:
            self._files.delete(_remote(folder, path))
            (folder / path).unlink(missing_ok=True)

        self._each(delete, paths)

    def forget(self, folder: Path, paths: Iterable[str]) -> None:
        for path in paths:
            (folder / path).unlink(missing_ok=True)

    @contextmanager
    def listed_once(self, folders: Iterable[Path]) -> Iterator[None]:
        self._lists = self._files.list([name for each in folders for name in (each.name, _remote(each / LOG))])
        try:
            yield
        finally:
            self._lists = {}

    @contextmanager
    def standing_in(self, folder: Path) -> Iterator[None]:
        stand_ins = []
        for file in self._list(folder.name):
            path = folder / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            os.utime(path, ns=(file.modified_ms * 1_000_000,) * 2)
            stand_ins.append(path)
        try:
            yield
        finally:
            for path in stand_ins:
                path.unlink(missing_ok=True)

    def place(self, folder: Path, path: str = "") -> str:
        return f"{self.address}/{_remote(folder, path)}"

    def reader(self, folder: Path) -> Any:
        return pf.PyFileSystem(_Fetched(lambda path: self._pool.submit(self._fetch_rows, folder, path).result()))

    def _list(self, folder: str) -> list[Listed]:
        return self._lists[folder] if folder in self._lists else self._files.list([folder])[folder]

    def _fetch_older(self, log: Path, as_of: int | datetime) -> None:
        """What the version of ``as_of`` needs; the version nearest to it where there is none such."""
        listed = {file.path: file for file in self._list(_remote(log))}
        readable = mirror.readable(listed)
        if not readable:
            return
        if isinstance(as_of, datetime):
            at_time = mirror.version_at(listed.values(), round(as_of.timestamp() * 1000))
            version = readable[0] if at_time is None else at_time
        else:
            version = as_of if as_of in readable else readable[-1]
        needed = mirror.files_of(listed, version)
        for name in needed or ():
            self._fetch_to_log(log, name)
            os.utime(log / name, ns=(listed[name].modified_ms * 1_000_000,) * 2)

    def _fetch_newest_checkpoint(self, log: Path) -> int:
        """Return the version from which the entries are to be fetched, without it; -1 is before the first."""
        needed: tuple[str, ...] = ()
        if self._fetch_to_log(log, HINT):
            needed = mirror.hinted((log / HINT).read_bytes())
            (log / HINT).unlink()
        elif self._fetch_to_log(log, mirror.entry(0)):
            return 0
        if not needed or not all(self._fetch_to_log(log, name) for name in needed):
            needed = self._listed_checkpoint(log)
        return max((version for name in needed if (version := mirror.version_of(name)) is not None), default=-1)

    def _listed_checkpoint(self, log: Path) -> tuple[str, ...]:
        """Fetch the newest checkpoint of a log whose hint is missing or names one that was deleted."""
        checkpoints = mirror.checkpoints_of(file.path for file in self._list(_remote(log)))
        needed = checkpoints[max(checkpoints)] if checkpoints else ()
        for name in needed:
            self._fetch_to_log(log, name)
        return needed

    def _fetch_to_log(self, log: Path, name: str) -> bool:
        return self._files.fetch(_remote(log, name), log / name)

    def _is_ours(self, entry: Path) -> bool:
        """Whether the entry at the address is the one that was sent: its creation was repeated after a lost answer."""
        with NamedTemporaryFile(dir=entry.parent, prefix=".theirs-") as theirs:
            self._files.fetch(_remote(entry.parent, entry.name), Path(theirs.name))
            return Path(theirs.name).read_bytes() == entry.read_bytes()

    def _fetch_rows(self, folder: Path, path: str) -> Path:
        target = folder / path
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=folder, prefix=".fetched-", delete=False) as whole:
                try:
                    fetched = self._files.fetch(_remote(folder, path), Path(whole.name))
                except KStreamsAssignError as error:
                    self.failed = error
                    raise
                if not fetched:
                    Path(whole.name).unlink()
                    raise FileNotFoundError(2, "there is no such file", self.place(folder, path))
            Path(whole.name).rename(target)
        return target

    def _each(self, act: Callable[[str], object], paths: Iterable[str]) -> None:
        for _ in self._pool.map(act, paths):
            pass


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def _remote(folder: Path, path: str = "") -> str:
    """The path of a table, of its log, or of a file in one of them, below the address."""
    at = f"{folder.parent.name}/{LOG}" if folder.name == LOG else folder.name
    return f"{at}/{path}" if path else at


class _Fetched(pf.FileSystemHandler):  # type: ignore[misc]
    """Reads files of rows that ``fetch`` brings to this machine when they are first opened."""

    def __init__(self, fetch: Callable[[str], Path]) -> None:
        self._fetch = fetch

    def get_type_name(self) -> str:
        return "fetched"

    def normalize_path(self, path: str) -> str:
        return path

    def open_input_file(self, path: str) -> Any:
        return pa.OSFile(str(self._fetch(path)))

    def open_input_stream(self, path: str) -> Any:
        return self.open_input_file(path)

    def get_file_info(self, paths: Iterable[str]) -> list[Any]:
        return [pf.FileInfo(path, pf.FileType.File) for path in paths]

    def _refuse(self, *_arguments: object) -> Any:
        raise NotImplementedError("the tables at an address are written by their commits alone")

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse
