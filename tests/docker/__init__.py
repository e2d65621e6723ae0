"""Brokers and workers in containers, and deliberate faults of the network between them.

The images, clusters by ``docker-compose.yml``, and faults that need a network. Counting is in ``tests.chaos``.
"""
