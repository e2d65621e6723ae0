"""Bytes to values and back: serdes as Java's, JSON, msgpack, dataclasses, and the serde of a Python type. Pure.

What must not live here: stores, records, tasks (``worker.typed``), schema registries (``adapters.confluent.registry``).
"""
