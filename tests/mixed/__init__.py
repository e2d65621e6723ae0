"""One group of Java Streams applications and workers of ours: who leads, who joins, who leaves, in every combination.

What lives here: instances of both kinds that are driven alike, the load, what came of it, the matrix. What must not:
Java itself (``tests/java``), and how to measure time (``bench/migration``).
"""
