"""The state directory of one process: its names and locks, what it reports as lag, and the cleaner.

What lives here: which folder belongs to whom, when it may go, KIP-441's mutex between the two. What must not: what is
inside a task's folder (``adapters.rocksdb``), the group protocol, a clock of its own.
"""
