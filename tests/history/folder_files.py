"""A file system below an address, as ``remote.Files`` has it, in a plain folder, with every fault on demand."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kstreams_assign.history.layout import Layout
from kstreams_assign.history.mirror import Listed
from kstreams_assign.history.remote import RemoteStore
from tests.history.play import Killed


class FolderFiles:
    """Changes are counted; the process is killed at change number ``killed_at``, before it or right after it.

    A file that is sent is half there when the process is killed before it is sent.
    """

    def __init__(self, folder: Path, killed_at: int | None = None, *, before: bool = True) -> None:
        self.folder = folder
        self.address = f"twin://{folder.name}/history"
        self.changes = 0
        self.fetched: list[str] = []
        self._killed_at, self._before = killed_at, before
        self._lock = threading.Lock()

    def exists(self, path: str) -> bool:
        return (self.folder / path).exists()

    def list(self, folders: Sequence[str]) -> dict[str, list[Listed]]:
        return {folder: self.listed(folder) for folder in folders}

    def listed(self, folder: str) -> list[Listed]:
        top = self.folder / folder
        files = [(path, path.relative_to(top)) for path in sorted(top.rglob("*")) if path.is_file()]
        return [
            Listed(str(name), path.stat().st_size, path.stat().st_mtime_ns // 1_000_000)
            for path, name in files
            if not name.parts[0].startswith(("_delta_log", "."))
        ]

    def fetch(self, path: str, target: Path) -> bool:
        if not self.exists(path):
            return False
        self.fetched.append(path)
        shutil.copyfile(self.folder / path, target)
        return True

    def create(self, path: str, content: bytes) -> bool:
        with self._change():
            target = self.folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with target.open("xb") as file:
                    file.write(content)
            except FileExistsError:
                return False
            return True

    def send(self, source: Path, path: str) -> None:
        target, content = self.folder / path, source.read_bytes()
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._change(lambda: target.write_bytes(content[: len(content) // 2])):
            target.write_bytes(content)

    def delete(self, path: str) -> None:
        with self._change():
            (self.folder / path).unlink(missing_ok=True)

    @contextmanager
    def _change(self, begin: Callable[[], object] = lambda: None) -> Iterator[None]:
        with self._lock:
            number, self.changes = self.changes, self.changes + 1
            if number == self._killed_at and self._before:
                begin()
            if self._killed_at is not None and number >= self._killed_at + (not self._before):
                raise Killed
            yield
            if number == self._killed_at:
                raise Killed


@contextmanager
def copied(files: FolderFiles, copy: Path) -> Iterator[Layout]:
    """A layout whose folder is a new copy."""
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True)
    store = RemoteStore(files)
    try:
        yield Layout(copy, store)
    finally:
        store.close()
