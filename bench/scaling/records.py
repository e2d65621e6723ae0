"""Bytes of keys, inputs and outputs of the scaling benchmark. ``java/ScalingApp.java`` reads and writes the same."""

from __future__ import annotations

from struct import Struct

KEY = Struct(">iq")
"""Partition of the record, which is also that of its output; number of the key in the partition."""
INPUT = Struct(">qq")
"""Number of the input in its partition, from 0; time when it was sent, in microseconds since 1970."""
COUNT = Struct(">q")
"""Count of a key, in the store and in the output."""
OUTPUT = Struct(">qqqB")
"""The input's value, the count of its key, and the number of the process that worked on it."""
