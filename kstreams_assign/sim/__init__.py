"""A group in simulated time, from one seed: broker, network, disks and what goes wrong are played, our rules are the real ones.

The worker's threads, the Kafka clients and the clock have stand-ins here (``loop``, ``membership``, ``client``, ``timeline``). What
they drive is not played: ``group``, ``tasks``, ``assign``, ``restore``, the mutex, and the bytes of subscription and assignment.
"""
