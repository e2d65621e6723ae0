"""Tables on Delta Lake: the one place that knows the format's library.

What lives here: opening a table, its commits, its versions, and the format's own compaction and removal of files. What
must not: which tables there are, and in which order they are committed (``writing``). The idea: Parquet files are
written by others, in the table's folder; they belong to the table once a commit names them. A commit carries the number
of its batch as the format's transaction id, so a batch that is committed again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.errors import ConfigError
from kstreams_assign.history.store import IN_PLACE, LOG, AsOf, Store

APPLICATION = "kstreams-assign history"
"""The id of our transactions; the version of a transaction is the number of its batch."""

KEPT_HOURS = 168
"""How long files that compaction replaced stay for readers of older versions: a week, the format's default."""

TARGET_BYTES = 100 << 20
"""Files are merged up to this size, the library's own."""

WRITER = "kstreams_assign.writer"
"""The property of a table that names the run which may write to it."""

TOPIC_ID = "kstreams_assign.topic_id"
"""The property of a table that names the topic whose records were read."""

_NO_CLEANUP = PostCommitHookProperties(cleanup_expired_logs=False)
"""For a commit: to look for old logs takes the longer the more there are. ``vacuum`` deletes them."""


Error = DeltaError
"""What the library raises for a table that it cannot read or write."""


class DataFile(NamedTuple):
    """A Parquet file of a table.

    ``path`` is relative to the table's folder. ``part`` is the value of the partition column, which is not in the file.
    ``size`` is in bytes.
    """

    path: str
    part: str
    rows: int
    size: int


class Table:
    """A table that this process writes.

    Each commit is made in the folder, and then by ``store``: one that another run was faster with is made again on top
    of that run's, or given up.
    """

    def __init__(
        self, folder: Path, schema: pa.Schema, part: pa.Field, settings: Mapping[str, str], store: Store = IN_PLACE
    ) -> None:
        """Open the table below ``folder``; make it if there is none, and add the columns that it lacks.

        ``schema``: the columns of its files. ``part``: the partition column. ``settings``: properties of a new table.
        Raises ``ConfigError`` for a column of another type.
        """
        self._folder, self._part, self._store = folder, part.name, store
        whole = schema.append(part)
        store.fetch_log(folder)
        if not DeltaTable.is_deltatable(str(folder)):
            DeltaTable.create(
                str(folder), whole, partition_by=part.name, name=folder.name, configuration=settings, mode="ignore"
            )
            store.send_log(folder)
        self._table = DeltaTable(str(folder))
        self._until_sent(lambda: self._evolve(Schema.from_arrow(whole)))

    def _evolve(self, schema: Schema) -> None:
        present = {field.name: field.type for field in self._table.schema().fields}
        for field in schema.fields:
            if field.name in present and present[field.name] != field.type:
                raise ConfigError(
                    f"--out {self._store.address or self._folder.parent}: column {field.name} of table "
                    f"{self._folder.name} has the type {present[field.name]}, and this release writes {field.type}; "
                    "follow the topic into a new folder"
                )
        added = [field for field in schema.fields if field.name not in present]
        if added:
            self._table.alter.add_columns(added)

    def _until_sent(self, commit: Callable[[], None]) -> None:
        """Make a commit, again on top of each commit of another run that was faster."""
        commit()
        while not self._sent():
            commit()

    def _sent(self) -> bool:
        """Send what was committed, and read what is there then. False: another run was faster, and it is dropped."""
        sent = self._store.send_log(self._folder)
        if sent:
            self._table.update_incremental()
        else:
            self._table = DeltaTable(str(self._folder))
        return sent

    @property
    def batch(self) -> int:
        """The last batch that was committed to the table; -1 before the first."""
        return _batch_of(self._table)

    @property
    def writer(self) -> str:
        """The run that may write, as ``claim`` named it; empty before the first."""
        return self._table.metadata().configuration.get(WRITER, "")

    @property
    def topic_id(self) -> str:
        """The topic whose records were read, as ``claim`` named it; empty if it never was."""
        return self._table.metadata().configuration.get(TOPIC_ID, "")

    def claim(self, writer: str, topic_id: str = "") -> None:
        """Name the run that may write from now on, and the topic that it reads, if that is known.

        This changes the table's metadata, so by the rules of the format a commit that another run has begun fails.
        """
        properties = {WRITER: writer} | ({TOPIC_ID: topic_id} if topic_id else {})
        self._until_sent(lambda: self._table.alter.set_table_properties(properties, raise_if_not_exists=False))

    def refresh(self) -> None:
        """Read the commits that were made since."""
        self._store.fetch_log(self._folder)
        self._table.update_incremental()

    def commit(self, batch: int, added: Iterable[DataFile], removed: Iterable[DataFile] = ()) -> bool:
        """Add and remove files in one commit. Do nothing, and return False, if the batch is there already.

        The commit is on top of what this process has read last. Where another run is faster, it is made on top of that
        run's commit, but not if that run has made itself the writer.
        """
        writer, added, removed = self.writer, list(added), list(removed)
        while batch > self.batch and self.writer == writer:
            if self._commit(batch, added, removed) and self._sent():
                return True
        return False

    def _commit(self, batch: int, added: Iterable[DataFile], removed: Iterable[DataFile]) -> bool:
        """Commit in the folder. Return False if the batch was committed there by another run."""
        now_ms = wall_ms()
        actions: list[AddAction | RemoveAction] = [
            RemoveAction(file.path, True, now_ms, file.size, {self._part: file.part}) for file in removed
        ]
        actions += [
            AddAction(file.path, file.size, {self._part: file.part}, now_ms, True, f'{{"numRecords": {file.rows}}}')
            for file in added
        ]
        transaction = CommitProperties(app_transactions=[Transaction(APPLICATION, batch)])
        try:
            self._table.create_write_transaction(
                actions,
                "append",
                self._table.schema(),
                self._part,
                commit_properties=transaction,
                post_commithook_properties=_NO_CLEANUP,
            )
        except CommitFailedError:
            self._table.update_incremental()
            if batch > self.batch:
                raise
            return False
        return True

    def files(self) -> list[DataFile]:
        """The files of the newest version that this process has read."""
        columns = pa.table(self._table.get_add_actions(flatten=True))
        names = ("path", f"partition.{self._part}", "num_records", "size_bytes")
        rows = zip(*(columns.column(name).to_pylist() for name in names), strict=True)
        return [DataFile(path, str(part), rows, size) for path, part, rows, size in rows]

    def compact(self, part: str) -> int:
        """Write the rows of a partition into few files again, as the format's OPTIMIZE does; how many were replaced.

        None is where another run has committed something meanwhile: the day is then left for the next time.
        """
        files = [file for file in self.files() if file.part == part]
        if sum(sorted(file.size for file in files)[:2]) > TARGET_BYTES:
            return 0  # no two of them become one
        before = {file.path for file in files}
        small = [file.path for file in files if file.size <= TARGET_BYTES]
        self._store.fetch(self._folder, small)
        try:
            metrics = self._table.optimize.compact(
                partition_filters=[(self._part, "=", part)], target_size=TARGET_BYTES
            )
            self._table.update_incremental()
            self._store.send(self._folder, self._paths(part) - before)
            return int(metrics["numFilesRemoved"]) if self._sent() else 0
        finally:
            self._store.forget(self._folder, small)

    def _paths(self, part: str) -> set[str]:
        return {file.path for file in self.files() if file.part == part}

    def vacuum(self, log_hours: int | None = None) -> None:
        """Delete files that no version of the last week has or no commit ever named, and logs that are as old.

        ``log_hours``: how long logs are kept instead.
        """
        self.refresh()
        with self._store.standing_in(self._folder):
            unused = self._table.vacuum(KEPT_HOURS, dry_run=True, enforce_retention_duration=False, full=True)
        self._store.delete(self._folder, unused)
        self._store.expire_log(self._folder, wall_ms() - (KEPT_HOURS if log_hours is None else log_hours) * 3_600_000)
        self._table = DeltaTable(str(self._folder))


class TableIsYounger(LookupError):
    """The table was made after the time that was asked for."""


class Snapshot:
    """One version of a table, for readers."""

    def __init__(self, folder: Path, as_of: AsOf = None, store: Store = IN_PLACE) -> None:
        """Raises ``FileNotFoundError`` where there is no table, ``LookupError`` where it has no such version."""
        self._folder, self._store = folder, store
        store.fetch_log(folder, as_of)
        try:
            self._table = DeltaTable(str(folder))
        except TableNotFoundError as error:
            raise FileNotFoundError(str(folder)) from error
        if as_of is None:
            return
        try:
            self._table.load_as_version(as_of)
        except (DeltaError, OverflowError) as error:
            raise LookupError(
                f"table {folder.name} has no such version: the newest is {self._table.version()}, and logs are deleted "
                f"after {KEPT_HOURS // 24} days"
            ) from error
        if isinstance(as_of, datetime) and self.time > as_of:  # the library then takes the oldest that it has
            problem = f"the oldest version of table {folder.name} is of {self.time.isoformat()}"
            raise LookupError(problem) if self.version else TableIsYounger(problem)

    @property
    def version(self) -> int:
        return self._table.version()

    @property
    def batch(self) -> int:
        """The last batch in it; -1 before the first."""
        return _batch_of(self._table)

    @property
    def time(self) -> datetime:
        """When this version was committed: as the library, by the time of the log's file, in whole milliseconds."""
        written = (self._folder / LOG / f"{self.version:020d}.json").stat().st_mtime_ns
        return datetime.fromtimestamp(written // 1_000_000 / 1000, UTC)

    @property
    def columns(self) -> frozenset[str]:
        return frozenset(field.name for field in self._table.schema().fields)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(self._table.schema().to_arrow())

    def files(self) -> list[str]:
        """Its files, as Spark finds them."""
        paths = pa.table(self._table.get_add_actions(flatten=True)).column("path").to_pylist()
        return [self._store.place(self._folder, path) for path in paths]

    def dataset(self) -> Any:
        """Its rows as a dataset of Arrow."""
        return self._table.to_pyarrow_dataset(filesystem=self._store.reader(self._folder))

    def read(self, columns: Collection[str], condition: Any = None) -> pa.Table:
        """These columns of the rows for which the expression of ``pyarrow.compute`` holds."""
        return self.dataset().to_table(columns=list(columns), filter=condition)


def _batch_of(table: DeltaTable) -> int:
    batch = table.transaction_version(APPLICATION)
    return -1 if batch is None else batch
