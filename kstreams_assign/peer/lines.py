"""A peer's conversation: one answer per line, flushed, whatever the line contains.

Bytes in, text out, and refusals; the answers come from elsewhere. An invalid or refused request gets ``{"error":
{"class", "message"}}``, and the conversation goes on. An ``id`` is returned with the answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import IO, Any

from kstreams_assign.errors import ConfigError, KStreamsAssignError

Json = dict[str, Any]
Answer = Callable[[Json], Json]


def converse(lines: Iterable[bytes], out: IO[str], answer: Answer) -> None:
    """Answer every line that is not blank, until there are no more."""
    for line in lines:
        if line.strip():
            out.write(reply(line, answer) + "\n")
            out.flush()


def reply(line: bytes, answer: Answer) -> str:
    """Return the answer to one line, as one line of JSON."""
    named: Json = {}
    try:
        request = parsed(line)
        named = _name_of(request)
        return _text(named | answer(request))
    # RecursionError: JSON may be nested as deeply as its sender likes
    except (KStreamsAssignError, RecursionError) as refused:
        return _text(named | {"error": {"class": type(refused).__name__, "message": str(refused)}})


def parsed(line: bytes) -> Json:
    """Parse a line. Raises ``ConfigError`` if it is not a JSON object or contains a duplicate key."""
    try:
        request = json.loads(
            line.decode("utf-8", "replace"),
            object_pairs_hook=_each_once,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except ValueError as wrong:
        raise ConfigError(f"the line is not JSON: {wrong}") from None
    if not isinstance(request, dict):
        raise ConfigError("a request must be a JSON object")
    return request


def _each_once(pairs: list[tuple[str, Any]]) -> Json:
    members = dict(pairs)
    if len(members) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ConfigError(f"an object contains {next(key for key in keys if keys.count(key) > 1)!r} twice")
    return members


def _refuse_constant(name: str) -> None:
    raise ConfigError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ConfigError(f"the number {text} is too large")
    return number


def _name_of(request: Json) -> Json:
    named = {key: request[key] for key in ("id",) if key in request}
    _text(named)  # refuse an id that is nested too deeply here, before it is written into an error
    return named


def _text(answer: Json) -> str:
    return json.dumps(answer, separators=(",", ":"))
