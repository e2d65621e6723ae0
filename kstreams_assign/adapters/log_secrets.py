"""What the client libraries log, without the secrets that they were given.

With ``debug = "conf"`` librdkafka lists its configuration; at level DEBUG kafka-python logs its own, and each request
with its bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kstreams_assign.client_settings import secrets_of, without_secrets


class _WithoutSecrets(logging.Filter):
    """Takes out of each line what it has been given to hide."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets: frozenset[str] = frozenset()

    def filter(self, record: logging.LogRecord) -> bool:
        if self.secrets:
            record.msg, record.args = without_secrets(record.getMessage(), self.secrets), None
        return True


_filter = _WithoutSecrets()


def hide_secrets(client: Mapping[str, str], logger_name: str) -> None:
    """Show no secret of ``client`` in what this logger and those below it log, as text or as the bytes of a request."""
    secrets = secrets_of(client)
    _filter.secrets |= secrets | {repr(secret)[1:-1] for secret in secrets} | {repr(s.encode())[2:-1] for s in secrets}
    filter_loggers(logger_name, _filter)


def filter_loggers(name: str, lines: logging.Filter) -> None:
    """Put a filter on the logger ``name`` and on those below it that exist; a second time changes nothing.

    A logger's filters see only what is logged to it, not what is logged below it.
    """
    for logger in [name, *logging.root.manager.loggerDict]:
        if f"{logger}.".startswith(f"{name}."):
            logging.getLogger(logger).addFilter(lines)
