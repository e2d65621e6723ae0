"""An observed group, decoded and judged: ``inspect``, ``what-if``, the worker and the history on Spark share this code.

Pure: a ``GroupSnapshot`` (bytes and numbers that the caller fetched) goes in, values and plain texts come out. No
clock, no I/O, no client library. ``wire`` and ``group`` decode, ``assign`` decides: this package has no decoder or
rule of its own.
"""

from __future__ import annotations
