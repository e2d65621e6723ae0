"""Requests of a command to the process that has a state directory, each a file in the directory's folder ``requests``.

The command leaves a request and waits for the answer, a file of the same name. The directory says which processes of an
application run on this machine, and its owner decides who may ask: any program that can write there. A signal, as
``drain`` uses it, could name no task, and a sidecar's socket serves one application at a time.

What must not live here: what is asked for (``worker.state_requests``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

REQUESTS_FOLDER = "requests"

_REQUEST, _ANSWER, _DRAFT = ".request", ".answer", ".draft"


class StateRequest(NamedTuple):
    """A request, and the file where its answer is expected."""

    facts: Mapping[str, Any]
    answer: Path


def leave_request(folder: Path, facts: Mapping[str, Any], until_ms: int) -> Path:
    """Leave a request in an application's folder; return the path of its answer.

    A process that reads it after ``until_ms`` (since 1970) drops it. Raises ``OSError``, ``FileNotFoundError`` where
    the process that has the directory takes no requests.
    """
    name = folder / REQUESTS_FOLDER / uuid4().hex
    _write(name.with_suffix(_REQUEST), {**facts, "until_ms": until_ms})
    return name.with_suffix(_ANSWER)


def take_requests(folder: Path, now_ms: int) -> list[StateRequest]:
    """Return the requests that have not been taken, oldest first, and remove them. Raises ``OSError``.

    What is no request, or is too old, is only removed.
    """
    requests = folder / REQUESTS_FOLDER
    if not requests.is_dir():  # removed since the start
        requests.mkdir(mode=0o750, exist_ok=True)
    taken: list[tuple[int, StateRequest]] = []
    for path in requests.glob(f"*{_REQUEST}"):
        with suppress(FileNotFoundError):  # its command has withdrawn it
            written_ns = path.stat().st_mtime_ns
            facts = _read(path)
            path.unlink()
            until_ms = facts.get("until_ms")
            if type(until_ms) is int and now_ms <= until_ms:
                taken.append((written_ns, StateRequest(facts, path.with_suffix(_ANSWER))))
    return [request for _, request in sorted(taken, key=lambda each: each[0])]


def forget_requests(folder: Path) -> None:
    """Remove what an earlier process has not answered, or that was not read. Raises ``OSError``."""
    requests = folder / REQUESTS_FOLDER
    requests.mkdir(mode=0o750, exist_ok=True)
    for path in requests.iterdir():
        path.unlink()


def write_answer(answer: Path, facts: Mapping[str, Any]) -> None:
    """Answer a request. Raises ``OSError``."""
    _write(answer, facts)


def take_answer(answer: Path) -> Mapping[str, Any] | None:
    """Return an answer and remove it; None while there is none."""
    if not answer.exists():
        return None
    facts = _read(answer)
    with suppress(OSError):  # the process removes it when it starts again
        answer.unlink()
    return facts


def withdraw_request(answer: Path) -> None:
    """Remove a request that was not taken."""
    with suppress(OSError):
        answer.with_suffix(_REQUEST).unlink()


def _write(path: Path, facts: Mapping[str, Any]) -> None:
    draft = path.with_suffix(path.suffix + _DRAFT)
    draft.write_text(json.dumps(facts), encoding="utf-8")
    draft.replace(path)


def _read(path: Path) -> dict[str, Any]:
    """Return the file's object; empty for a file that has none."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}
