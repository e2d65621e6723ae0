"""Run a topology in a test, without a broker: the worker's own loop, with everything outside it in memory.

``driver`` is the public side. ``broker`` holds the topics, ``clients`` reads and writes them for the loop, and
``around`` stands in for the group, the restore thread and the state directory. What must not live here: rules of
processing or commits; they are ``worker.processing``'s and ``engine``'s.
"""
