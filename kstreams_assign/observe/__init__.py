"""A group as it was seen, decoded and judged: what ``inspect``, ``what-if``, the worker and the history on Spark share.

Pure: a ``GroupSnapshot`` goes in (bytes and numbers that somebody else fetched), values and plain texts come out. No clock, no
I/O, no client library. Decoding is done by ``wire`` and ``group``, decisions by ``assign``: nothing is read or decided here
in a way of its own.
"""

from __future__ import annotations
