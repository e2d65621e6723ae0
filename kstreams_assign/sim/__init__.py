"""The simulator: a group in simulated time, from one seed. Broker, network, disks and faults are simulated.

The worker's threads, the Kafka clients and the clock have stand-ins (``loop``, ``membership``, ``client``,
``timeline``). The rules that they drive are the real ones: ``group``, ``tasks``, ``assign``, ``restore``, the mutex,
and the bytes of subscription and assignment. Members may behave as Java's (``java``). Real clocks, sockets and client
libraries do not belong here.
"""
