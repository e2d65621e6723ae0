"""Leave out the log lines of the Kafka clients in commands whose own errors say what went wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kstreams_assign.adapters.confluent.log_meanings import LOGGER_NAME as LIBRDKAFKA
from kstreams_assign.adapters.kafka_python.log_meanings import LOGGER_NAME as KAFKA_PYTHON

_SILENT = logging.CRITICAL + 1


@contextmanager
def without_client_logs(client: Mapping[str, str]) -> Iterator[None]:
    """Drop what librdkafka and kafka-python log during the block, unless the caller's ``debug`` setting asks for it."""
    if "debug" in client:
        yield
        return
    librdkafka, kafka_python = logging.getLogger(LIBRDKAFKA), logging.getLogger(KAFKA_PYTHON)
    level = kafka_python.level
    librdkafka.addFilter(_nothing)  # not its level: the adapters' own loggers below it would inherit that
    kafka_python.setLevel(_SILENT)
    try:
        yield
    finally:
        librdkafka.removeFilter(_nothing)
        kafka_python.setLevel(level)


def _nothing(_record: logging.LogRecord) -> bool:
    return False
