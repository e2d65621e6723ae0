"""Where everything stands below ``--out``: tables for readers, and the folders that no reader looks into.

What lives here: names, and reading states back. What must not: publishing and compaction. Known to the driver and to
every executor, which see the same folder.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from kstreams_assign.errors import ConfigError, StateDirectoryLocked

BUCKETS = 64
"""Over how many files the groups' states are spread; a batch writes those of its groups again."""


@dataclass(frozen=True)
class Layout:
    """The folder of a history."""

    root: Path

    @property
    def checkpoint(self) -> Path:
        """Spark's own: which records a batch has, and which batches are done."""
        return self.root / "_checkpoint"

    @property
    def work(self) -> Path:
        """Files on their way; whatever is left here by a run that was killed is nothing."""
        return self.root / "_work"

    @property
    def log(self) -> Path:
        return self.root / "_log" / "spark.log"

    def staging(self, batch: int) -> Path:
        """Where the tasks of a batch leave their files."""
        return self.work / f"batch-{batch:08d}" / "staged"

    def ready(self, batch: int) -> Path:
        """Folders of a batch that only wait to be renamed."""
        return self.work / f"batch-{batch:08d}" / "ready"

    def replaced(self, batch: int) -> Path:
        """What an earlier attempt at a batch had published."""
        return self.work / f"batch-{batch:08d}" / "replaced"

    def compacting(self, table: str, day: str) -> Path:
        """The new folder of a day; after the exchange, the old one."""
        return self.work / "compact" / table / f"day={day}"

    def day(self, table: str, day: str) -> Path:
        return self.root / table / f"day={day}"

    def days(self, table: str) -> list[str]:
        """The days of a table, oldest first."""
        return sorted(path.name.removeprefix("day=") for path in (self.root / table).glob("day=*"))

    def batches(self, table: str, day: str) -> dict[int, Path]:
        """The folders of a day by their batch, in order."""
        by_number = {int(path.name.removeprefix("batch=")): path for path in self.day(table, day).glob("batch=*")}
        return dict(sorted(by_number.items()))

    def state(self, bucket: int, batch: int) -> Path:
        return self._bucket(bucket) / f"batch={batch:08d}.parquet"

    def state_files(self, bucket: int) -> dict[int, Path]:
        """The states of a bucket by the batch that wrote them, in order."""
        by_number = {
            int(path.stem.removeprefix("batch=")): path for path in self._bucket(bucket).glob("batch=*.parquet")
        }
        return dict(sorted(by_number.items()))

    def states_before(self, bucket: int, batch: int) -> dict[str, bytes]:
        """Group -> state, as the batches before this one left them."""
        older = [path for number, path in self.state_files(bucket).items() if number < batch]
        if not older:
            return {}
        table = pq.read_table(older[-1])
        return dict(zip(table.column("group").to_pylist(), table.column("state").to_pylist(), strict=True))

    def committed(self) -> int:
        """The last batch that Spark will not repeat; -1 before the first."""
        return max((int(path.name) for path in (self.checkpoint / "commits").glob("[0-9]*")), default=-1)

    def check(self) -> None:
        """Refuse a folder whose tables no longer know how far they got."""
        if not self.checkpoint.exists() and (self.root / "_state").exists():
            raise ConfigError(
                f"--out {self.root.absolute()}: there are tables, but {self.checkpoint.name} was deleted, so the topic "
                "would be read again and rows doubled; name a new folder"
            )

    def _bucket(self, bucket: int) -> Path:
        return self.root / "_state" / f"bucket={bucket:02d}"


@contextmanager
def held(layout: Layout) -> Iterator[None]:
    """Keep the folder to this process for the block. Raises ``StateDirectoryLocked`` where another has it."""
    try:
        layout.root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(layout.root / "_lock", os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise ConfigError(
            f"--out {layout.root}: cannot be written to ({error.strerror}); name another folder"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise StateDirectoryLocked(
            f"--out {layout.root}: another run works on it; wait, or name another folder"
        ) from error
    finally:
        os.close(descriptor)
