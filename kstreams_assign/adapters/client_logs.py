"""The log of the Kafka clients: quiet below WARNING unless asked for, and in this project's words where it matters.

An application that logs at INFO reads what its worker does, not what each connection does. So a client's logger is
set to WARNING where no level is set, and its warnings are rewritten by a table: what happened, why, what happens next.
Lines that are no news, or that an event of the worker reports with its consequences, are dropped. A line that the table
does not have stays as it is. ``logging.getLogger("kafka").setLevel(logging.INFO)``, or of a logger below it, shows a
client's own lines again, unchanged.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kstreams_assign.adapters.log_secrets import filter_loggers, hide_secrets

PROJECT = "kstreams_assign"

_REPEAT_S = 30.0


class Meaning(NamedTuple):
    """What lines of a client mean. ``text`` takes the pattern's groups; None drops the line."""

    pattern: re.Pattern[str]
    text: str | None


def meaning(pattern: str, text: str | None) -> Meaning:
    """Return a row of a table; ``pattern`` is searched for in the client's line."""
    return Meaning(re.compile(pattern, re.DOTALL), text)


class OncePerHalfMinute(logging.Filter):
    """Lets a line through that was not seen within 30 s, numbers aside.

    While a broker is down, every client says so twenty times a second.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        line = re.sub(r"\d+", "", record.getMessage())
        now_s = time.monotonic()
        fresh = now_s - self._seen_s.get(line, -_REPEAT_S) >= _REPEAT_S
        if fresh:
            self._seen_s = {seen: at_s for seen, at_s in self._seen_s.items() if now_s - at_s < _REPEAT_S}
            self._seen_s[line] = now_s
        return fresh


class _InOurWords(logging.Filter):
    """Rewrites a client's warnings by a table, unless its own lines are asked for."""

    def __init__(self, meanings: Sequence[Meaning]) -> None:
        super().__init__()
        self._meanings = meanings
        self._fresh = OncePerHalfMinute()

    def filter(self, record: logging.LogRecord) -> bool:
        if logging.getLogger(record.name).getEffectiveLevel() < logging.WARNING:
            return True
        line = record.getMessage()
        for pattern, text in self._meanings:
            if match := pattern.search(line):
                if text is None:
                    return False
                values = {name: value or "no reason given" for name, value in match.groupdict().items()}
                record.name, record.msg, record.args = PROJECT, text.format(**values), ()
                record.exc_info = record.exc_text = None
                break
        return self._fresh.filter(record)


_filters: dict[str, _InOurWords] = {}


def log_in_our_words(client: Mapping[str, str], logger_name: str, meanings: Sequence[Meaning]) -> None:
    """Prepare a client's loggers before the client is made: no secret of ``client``, no chatter, our words."""
    hide_secrets(client, logger_name)
    logger = logging.getLogger(logger_name)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)
    filter_loggers(logger_name, _filters.setdefault(logger_name, _InOurWords(meanings)))
