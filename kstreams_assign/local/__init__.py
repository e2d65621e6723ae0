"""A real Kafka broker on this machine: its jars, a Java to run them, start and stop.

What lives here: fetching and checking the jars (``jars``), one JVM (``server``), one broker as a context manager
(``broker``), brokers that outlive their caller (``detached``) and the commands (``command``). What must not: any Kafka
client. The idea: a broker takes two seconds, so tests and demos use a real broker.
"""

from __future__ import annotations

from kstreams_assign.local.broker import LocalBroker

__all__ = ["LocalBroker"]
