"""A batch becomes visible: table by table, in an order that readers can rely on, and once.

What lives here: the tables of a folder as the one run that writes them has them. What must not: deriving rows, and the
format's library. The idea: one commit to the table of states decides a batch. It has the groups' new states, and the
list of the batch's files in all other tables. Those get their files afterwards, each in a commit of its own. A run that
starts first gives the tables what the last decided batch still owes them; so a batch is never derived twice once it is
decided, and all its rows come from one attempt.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from kstreams_assign.errors import ConfigError, StateDirectoryLocked
from kstreams_assign.history.delta import KEPT_HOURS, DataFile, Snapshot, Table
from kstreams_assign.history.layout import STATES, Layout
from kstreams_assign.history.schemas import SCHEMAS, STATE, arrow_table
from kstreams_assign.history.staging import COUNTS, Staged, day_name, newest_and_counts, write_file
from kstreams_assign.history.store import LOG
from kstreams_assign.history.tables import COLUMNS

ORDER = (*(name for name in COLUMNS if name != "rebalances"), "rebalances")
"""``rebalances`` last: a generation that stands there has its rows in every other table."""

DAY, BUCKET = pa.field("day", pa.date32()), pa.field("bucket", pa.int32())

FILES = -1
"""The bucket of ``_state`` that lists the files of the last batch: a row for each table, with JSON instead of state."""

_SETTINGS = {"delta.checkpointInterval": "10", "delta.logRetentionDuration": f"interval {KEPT_HOURS} hours"}
"""The library's own interval of 100 makes a batch three times as costly. Files of older versions are deleted."""

_STATES_LOG_HOURS = 1

_STATES_SETTINGS = {
    **_SETTINGS,
    "delta.logRetentionDuration": f"interval {_STATES_LOG_HOURS} hours",
    "delta.deletedFileRetentionDuration": "interval 0 hours",
}
"""Only the newest version of the states is ever read; a batch replaces up to ``BUCKETS`` files."""

Boundary = Callable[[str], None]
"""Called wherever a run could be killed with something half done; tests do kill it there."""


def no_boundary(where: str) -> None:
    """What a run outside of tests has."""


def check_folder(layout: Layout) -> None:
    """Refuse a folder with tables that this release cannot continue. Raises ``ConfigError``."""
    refuse_old_tables(layout)
    if not layout.store.has(layout.checkpoint) and _decided(layout) >= 0:
        raise ConfigError(
            f"--out {layout.name}: there are tables, but {layout.checkpoint.name} was deleted, so the topic "
            "would be read again and rows doubled; name a new folder"
        )


def refuse_old_tables(layout: Layout) -> None:
    """Raise ``ConfigError`` for tables of the time before Delta Lake: folders of Parquet files."""
    for name in (*COLUMNS, STATES):
        folder = layout.table(name)
        if any(folder.glob("*=*")) and not (folder / LOG).is_dir():
            raise ConfigError(
                f"--out {layout.name}: table {name} is a folder of Parquet files without a log of Delta "
                "Lake, so an earlier release wrote it; follow the topic into a new folder"
            )


def _decided(layout: Layout) -> int:
    try:
        return Snapshot(layout.table(STATES), store=layout.store).batch
    except FileNotFoundError:
        return -1


class HistoryWriter:
    """The tables of a folder, for the one run that writes them; the caller has the folder's lock."""

    def __init__(self, layout: Layout, reached: Boundary = no_boundary, topic_id: str = "") -> None:
        """Open all tables, make this run their writer, and complete the last batch if that was left half done.

        Raises ``ConfigError`` where the tables are those of another topic than ``topic_id``.
        """
        self.layout = layout
        store = layout.store
        self.tables = {name: Table(layout.table(name), SCHEMAS[name], DAY, _SETTINGS, store) for name in ORDER}
        self._states = Table(layout.table(STATES), STATE, BUCKET, _STATES_SETTINGS, store)
        started = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._name = f"process {os.getpid()} on host {platform.node()}, started at {started}"
        self._refuse_other_topic(topic_id)
        self._states.claim(self._name, topic_id)
        owed = {name: files for name, files in self._listed().items() if self.tables[name].batch < self.batch}
        if owed:
            self._complete(self.batch, owed, reached)

    @property
    def batch(self) -> int:
        """The last batch that was decided: it need not be derived again. -1 before the first."""
        return self._states.batch

    def states(self) -> dict[int, str]:
        """Bucket -> the file with the states of its groups, relative to the folder of ``_state``."""
        return {int(file.part): file.path for file in self._states.files() if int(file.part) != FILES}

    def publish(self, batch: int, staged: Sequence[Staged], reached: Boundary = no_boundary) -> None:
        """Show what the tasks of a batch staged.

        Raises ``StateDirectoryLocked`` if another run has made itself the writer since, ``ConfigError`` for files that
        are not in the folder as this host sees it.
        """
        if not self.layout.is_copy:
            self._refuse_files_elsewhere(staged)
        files: dict[str, list[DataFile]] = {}
        for row in (*staged, *self._counts(batch, staged)):
            if row.path:
                files.setdefault(row.table, []).append(DataFile(row.path, row.part, row.amount, row.size))
        states = files.pop(STATES, [])
        self._decide(batch, [*states, self._write_list(batch, files)])
        reached("decided")
        self._complete(batch, files, reached)

    def vacuum(self) -> None:
        """Delete what is too old: files that compaction replaced, and files that tasks of failed attempts left.

        Not after another run has made itself the writer: what it commits now may be unknown here.
        """
        self.refuse_other_writer()
        with self.layout.store.listed_once(self.layout.table(name) for name in (*self.tables, STATES)):
            for table in self.tables.values():
                table.vacuum()
            self._states.vacuum(_STATES_LOG_HOURS)

    def refuse_other_writer(self) -> None:
        """Raise ``StateDirectoryLocked`` if another run has made itself the writer."""
        self._states.refresh()
        if self._states.writer != self._name:
            raise StateDirectoryLocked(
                f"--out {self.layout.name}: another run writes to it now, {self._states.writer}; this run has ended, "
                "and the other one continues"
            )

    def _refuse_other_topic(self, topic_id: str) -> None:
        """Its records would be taken for some that were read, as their offsets are lower."""
        if topic_id and self._states.topic_id not in {"", topic_id}:
            raise ConfigError(
                f"--out {self.layout.name}: the tables are those of another topic __consumer_offsets, with the id "
                f"{self._states.topic_id}; this cluster's has {topic_id}: name the other cluster, or if its topic was "
                "created again, a new folder"
            )

    def _refuse_files_elsewhere(self, staged: Sequence[Staged]) -> None:
        """A commit that names a file on an executor's own disk would make the table unreadable."""
        for row in staged:
            path = self.layout.table(row.table) / row.path
            if row.path and not (path.is_file() and path.stat().st_size == row.size):
                raise ConfigError(
                    f"--out {self.layout.root}: an executor wrote {row.table}/{row.path}, but host {platform.node()} "
                    "does not see that file; name a folder that the driver and all executors share"
                )

    def _decide(self, batch: int, states: Sequence[DataFile]) -> None:
        self.refuse_other_writer()
        written = {file.part for file in states}
        replaced = [file for file in self._states.files() if file.part in written]
        try:
            decided = self._states.commit(batch, states, replaced)
        finally:
            self.refuse_other_writer()  # it came between: then the commit failed, or was of no use
        assert decided, f"batch {batch} was decided before"
        # nothing reads older states
        self.layout.store.delete(self.layout.table(STATES), [file.path for file in replaced])

    def _complete(self, batch: int, files: Mapping[str, Sequence[DataFile]], reached: Boundary) -> None:
        for name in ORDER:
            if files.get(name):
                self.tables[name].commit(batch, files[name])
            reached(f"published {name}")

    def _write_list(self, batch: int, files: Mapping[str, Sequence[DataFile]]) -> DataFile:
        rows = pa.table([list(files), [json.dumps(own).encode() for own in files.values()]], schema=STATE)
        written = self._write(STATES, str(FILES), batch, rows)
        return DataFile(written.path, written.part, written.amount, written.size)

    def _listed(self) -> dict[str, list[DataFile]]:
        for file in self._states.files():
            if int(file.part) == FILES:
                folder = self.layout.table(STATES)
                self.layout.store.fetch(folder, [file.path])
                rows = pq.read_table(folder / file.path, partitioning=None).to_pylist()
                return {row["group"]: [DataFile(*fields) for fields in json.loads(row["state"])] for row in rows}
        return {}

    def _counts(self, batch: int, staged: Sequence[Staged]) -> list[Staged]:
        newest_ms, tables = newest_and_counts(staged)
        rows = arrow_table(COUNTS, tables[COUNTS])
        return [self._write(COUNTS, day_name(newest_ms), batch, rows)] if rows.num_rows else []

    def _write(self, table: str, part: str, batch: int, rows: pa.Table) -> Staged:
        written = write_file(self.layout, table, part, batch, rows)
        self.layout.store.send(self.layout.table(table), [written.path])
        return written
