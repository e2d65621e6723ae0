"""Bringing a task's stores up to its changelogs: the ports, pure progress, and the loop that applies records.

What lives here: when a task counts as restored, what starts over, who is read first. What must not: a Kafka or a
RocksDB client (``adapters``), and who owns which task (``group``, ``tasks``).
"""
