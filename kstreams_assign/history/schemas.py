"""The types of the tables, and of what Spark's tasks take and give: the Arrow twin of ``protocol/history.md``.

What lives here: types alone, with the columns in the order of ``tables.COLUMNS``. What must not: rows and files.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pyarrow as pa  # type: ignore[import-untyped]

from kstreams_assign.history.tables import COLUMNS, Columns

TYPES: Mapping[str, pa.DataType] = {
    # as protocol/history.md names them
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "array<string>": pa.list_(pa.string()),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "map<string,int>": pa.map_(pa.string(), pa.int32()),
    "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
}

_TYPE_OF: Mapping[str, tuple[str, ...]] = {
    # type -> columns that have it, in every table; all others are text
    "int": (
        *("generation", "offsets_partition", "members", "processes", "owner_changes", "adopted", "subtopology"),
        *("version", "latest_supported_version", "error_code", "partition", "tasks", "least", "most"),
    ),
    "bigint": (
        *("offsets_offset", "time_ms", "next_rebalance_ms", "offset_sum", "end_offset", "begin_offset", "sampled_ms"),
        *("held_ms", "gap_ms", "released_ms", "taken_ms", "began_ms", "records"),
    ),
    "double": ("skew",),
    "boolean": ("probing", "ours", "warmup_known", "planned", "warm"),
    "binary": ("key", "value"),
    "array<string>": ("joined", "gone"),
    "map<string,string>": ("tags",),
    "map<string,int>": ("assignors",),
    "map<string,bigint>": ("offset_sums",),
}

_NAMES = {column: name for name, columns in _TYPE_OF.items() for column in columns}

SCHEMAS: Mapping[str, pa.Schema] = MappingProxyType(
    {
        table: pa.schema([(column, TYPES[_NAMES.get(column, "string")]) for column in columns])
        for table, columns in COLUMNS.items()
    }
)
"""Table -> its Arrow schema, without the columns that stand in the folders' names (``day``, ``batch``)."""

STATE = pa.schema([("group", pa.string()), ("state", pa.binary())])
"""What is kept of each group between two batches."""

RECORDS = "`partition` int, `offset` bigint, timestamp_ms bigint, key binary, value binary"
"""Records of ``__consumer_offsets`` in a Parquet folder, as Spark's DDL: what ``--records`` reads."""


def arrow_table(name: str, columns: Columns) -> pa.Table:
    """The rows of one table with their types."""
    schema = SCHEMAS[name]
    return pa.table([pa.array(columns[field.name], type=field.type) for field in schema], schema=schema)
