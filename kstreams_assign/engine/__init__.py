"""The rules of a member that lie between the tables, without I/O: events in, effects out, the clock as an argument.

``tasks`` is the processing loop's part: when a commit begins, and (``tasks_in_hand``) which task is run, restored,
tailed or closed.
``restoring`` is the restore thread's: who has each task's stores, when a task is handed out, and why it stops.
``membership`` is the member's: what it owns, reports and asks for. ``early`` is early probing's. The worker carries
their effects out with threads, Kafka clients and RocksDB, the simulator with values and simulated time.
What must not live here: a thread, a clock, a socket, a client, a store.
"""
