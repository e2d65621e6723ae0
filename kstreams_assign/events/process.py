"""Events of the process, its state directory, its sidecar and its HTTP server."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

from kstreams_assign.events.base import BaseEvent, ReasonEvent, WarningEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnavailableEvent(ReasonEvent):
    """No broker answers the membership; it goes on trying."""

    name: ClassVar[str] = "broker_unavailable"
    level: ClassVar[int] = logging.WARNING


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupFailedEvent(BaseEvent):
    """The brokers did not answer a question; the worker goes on without the answer or asks again."""

    name: ClassVar[str] = "lookup_failed"
    level: ClassVar[int] = logging.WARNING
    what: str
    """What was asked for."""
    reason: str
    """Why, in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningsEvent(WarningEvent):
    """At start: what is unusual about the state directory."""

    name: ClassVar[str] = "warnings"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateWipedEvent(BaseEvent):
    """At start: state was deleted that was older than ``state_cleanup_dir_max_age_ms``."""

    name: ClassVar[str] = "state_wiped"
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDirMadeAnewEvent(BaseEvent):
    """The state directory was missing while the process runs, and was created again."""

    name: ClassVar[str] = "state_dir_made_anew"
    level: ClassVar[int] = logging.WARNING
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListeningEvent(BaseEvent):
    """The sidecar accepts connections."""

    name: ClassVar[str] = "listening"
    socket: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionBeganEvent(BaseEvent):
    """An application opened the sidecar's session."""

    name: ClassVar[str] = "session_began"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEndedEvent(BaseEvent):
    """The sidecar's session ended; the next session reads again what the application had not committed."""

    name: ClassVar[str] = "session_ended"
    uncommitted: bool
    """Whether the session left records or writes whose commit it had not asked for or had not seen finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpListeningEvent(BaseEvent):
    """Health, metrics and the status page are served."""

    name: ClassVar[str] = "http_listening"
    url: str
    warnings: tuple[str, ...]
    """Not empty where other machines may connect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpFailedEvent(WarningEvent):
    """A request to the HTTP server failed with an error of the server's."""

    name: ClassVar[str] = "http_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryListeningEvent(BaseEvent):
    """Queries of this process's stores are answered."""

    name: ClassVar[str] = "query_listening"
    address: str
    """Where it listens, as ``HOST:PORT``, with the port that was taken."""
    endpoint: str
    """Where others ask: ``application_server``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFailedEvent(WarningEvent):
    """A query failed with an error of the worker's."""

    name: ClassVar[str] = "query_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedEvent(BaseEvent):
    """The process has ended: tasks are closed, and the group is left if it was to be left. The last event."""

    name: ClassVar[str] = "closed"
    error: str | None
    """Type and message of the error that ended the process; null after a close."""
