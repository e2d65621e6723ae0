"""One answer per line, flushed, whatever the line was: the conversation of a peer.

What lives here: bytes in, text out, refusals. What must not: what the answers are. A line that is no request, or one that is
refused, gets ``{"error": {"class", "message"}}`` and the conversation goes on. An ``id`` comes back.
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
    """The answer to one line, as one line of JSON."""
    named: Json = {}
    try:
        request = parsed(line)
        named = _name_of(request)
        return _text(named | answer(request))
    # RecursionError: JSON may be nested as deeply as its sender likes
    except (KStreamsAssignError, RecursionError) as refused:
        return _text(named | {"error": {"class": type(refused).__name__, "message": str(refused)}})


def parsed(line: bytes) -> Json:
    """The request that a line holds. Raises ``ConfigError`` for what is no JSON object, or names a key twice."""
    try:
        request = json.loads(
            line.decode("utf-8", "replace"),
            object_pairs_hook=_each_once,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except ValueError as wrong:
        raise ConfigError(f"the line is no JSON: {wrong}") from None
    if not isinstance(request, dict):
        raise ConfigError("a request is a JSON object")
    return request


def _each_once(pairs: list[tuple[str, Any]]) -> Json:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ConfigError(f"an object names {next(key for key in keys if keys.count(key) > 1)!r} twice")
    return found


def _refuse_constant(name: str) -> None:
    raise ConfigError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ConfigError(f"{text} is too large a number")
    return number


def _name_of(request: Json) -> Json:
    named = {key: request[key] for key in ("id",) if key in request}
    _text(named)  # an id that is nested too deeply to be written is refused here, not in the refusal
    return named


def _text(answer: Json) -> str:
    return json.dumps(answer, separators=(",", ":"))
