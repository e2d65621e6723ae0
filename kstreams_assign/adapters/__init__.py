"""The world outside, one third-party client to a file: ``kafka_python``, ``confluent``, ``rocksdb``, ``clock``.

What lives here: translation between a client's calls, values and errors and this package's own. What must not:
decisions. No other room imports these clients.
"""
