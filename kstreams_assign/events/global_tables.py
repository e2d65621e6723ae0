"""Events of global tables."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

from kstreams_assign.events.base import BaseEvent, ReasonEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalTableReadingEvent(BaseEvent):
    """A global table is not complete yet; reported when its reading begins, then every 10 s."""

    name: ClassVar[str] = "global_table_reading"
    table: str
    """Name of the table."""
    topic: str
    """Its topic."""
    remaining: int
    """Offsets left to the end of its topic."""
    offsets_per_s: int | None
    """Offsets read a second; null while it is unknown."""
    left_s: int | None
    """Estimated seconds left; null while they are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalTableReadyEvent(BaseEvent):
    """A global table holds what its topic held when the reading began, and may be read."""

    name: ClassVar[str] = "global_table_ready"
    table: str
    """Name of the table."""
    topic: str
    """Its topic."""
    offsets: int
    """Offsets that were read for that; few after a restart, as the table is kept on disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalTableStoppedEvent(ReasonEvent):
    """A global table cannot be kept up to date, such as for a full disk or a deleted topic. It is tried again."""

    name: ClassVar[str] = "global_table_stopped"
    level: ClassVar[int] = logging.WARNING
    table: str
    """Name of the table."""
    retry_ms: int
    """Milliseconds until it is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalTableRebuiltEvent(ReasonEvent):
    """A global table is built again from the start of its topic; until it is complete it cannot be read."""

    name: ClassVar[str] = "global_table_rebuilt"
    level: ClassVar[int] = logging.WARNING
    table: str
    """Name of the table."""
