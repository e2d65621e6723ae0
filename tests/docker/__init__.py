"""Brokers and workers in containers, and the network between them broken on purpose.

What lives here: the images, clusters made by ``docker-compose.yml``, faults that need a network. What must not: a second way to count
(``tests.chaos`` has the checkers).
"""
