"""Queries of stores from other processes: the messages, the endpoint of a worker, and the client.

What must not live here: stores and tasks (``worker`` answers), and which task has a key.
"""
