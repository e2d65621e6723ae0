"""JSON and msgpack: values of any shape as bytes.

What must not live here: classes of the user (``dataclass_json``).
"""

from __future__ import annotations

from typing import Any

import msgpack  # type: ignore[import-untyped]
import orjson

from kstreams_assign.serdes.serde import CODING_FAULTS, Serde


def write_json(value: object) -> bytes:
    """Return compact JSON; the members of objects are sorted, so that equal values are equal bytes."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _read_msgpack(data: bytes) -> Any:
    return msgpack.unpackb(data, strict_map_key=False)


def _write_msgpack(value: object) -> bytes:
    packed: bytes = msgpack.packb(value)
    return packed


JSON: Serde[Any] = Serde("JSON", write_json, orjson.loads)
MSGPACK: Serde[Any] = Serde("msgpack", _write_msgpack, _read_msgpack, (*CODING_FAULTS, msgpack.UnpackException))
