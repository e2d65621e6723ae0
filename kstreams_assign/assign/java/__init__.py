"""Decide as Kafka Streams does, down to the order in which Java's collections give their entries.

``high_availability``, ``sticky`` and ``fallback_prior`` are its assignors, ``threads`` divides a client's tasks among
its threads. ``plan_table``, ``lag_table``, ``movements``, ``standbys``, ``thread_balance`` and ``rack_aware`` are their
steps. ``hash_table``, ``tree_bin``, ``heap`` and ``flow`` are the collections and the graph whose order shows in a
result. What must not live here: anything that Java does not do.
"""
