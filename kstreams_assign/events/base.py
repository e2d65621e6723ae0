"""What every event has."""

from __future__ import annotations

from typing import TypedDict


class BaseEvent(TypedDict):
    """Fields of every event."""

    time_ms: int
    """Wall-clock time, in milliseconds since 1970."""
    process_id: str
    """Process that reports the event."""


class ReasonEvent(BaseEvent):
    """An event with its cause."""

    reason: str
    """Why, in a sentence."""


class WarningEvent(BaseEvent):
    """An event that warns."""

    warnings: list[str]
    """What is wrong, and what to do; these also go to ``logging``."""


class TaskReasonEvent(ReasonEvent):
    """An event of one task with its cause."""

    task: str
