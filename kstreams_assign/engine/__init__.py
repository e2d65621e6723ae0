"""The rules of a member that lie between the tables, without I/O: events in, effects out, the clock as an argument.

``tasks`` is the processing loop's part: which task is run, restored, tailed or closed, and when a commit begins. The
worker carries its effects out with threads, Kafka clients and RocksDB, the simulator with values and simulated time.
What must not live here: a thread, a clock, a socket, a client, a store.
"""
