"""What events have in common, and their form in JSON."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseEvent:
    """Fields of every event. The order of the fields is their order in JSON."""

    name: ClassVar[str]
    """Name of the event: the value of ``event`` in JSON."""
    level: ClassVar[int] = logging.INFO
    """How grave it is, as a level of ``logging``: the level of its lines in the log."""
    time_ms: int = 0
    """Wall-clock time, in milliseconds since 1970."""
    process_id: str = ""
    """Process that reports the event."""

    def as_dict(self) -> dict[str, Any]:
        """Return the event as ``--json-log`` has it: a flat dictionary with the name as ``event``."""
        _time_ms, _process_id, *facts = fields(self)
        return {
            "time_ms": self.time_ms,
            "event": self.name,
            "process_id": self.process_id,
            **{each.name: _plain(getattr(self, each.name)) for each in facts},
        }


def _plain(value: Any) -> Any:
    """Return a field's value as JSON has it."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonEvent(BaseEvent):
    """An event with its cause."""

    reason: str
    """Why, in a sentence."""


@runtime_checkable
class WithWarnings(Protocol):
    """An event that may warn, among other facts."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong, and what to do; these also go to ``logging``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningEvent(BaseEvent):
    """An event that warns."""

    level: ClassVar[int] = logging.WARNING
    warnings: tuple[str, ...]
    """What is wrong, and what to do; these also go to ``logging``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReasonEvent(BaseEvent):
    """An event of one task with its cause."""

    task: str
    reason: str
    """Why, in a sentence."""
