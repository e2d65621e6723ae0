"""Events of the process, its state directory, its sidecar and its HTTP server."""

from __future__ import annotations

from typing import Literal

from kstreams_assign.events.base import BaseEvent, ReasonEvent, WarningEvent


class BrokerUnavailableEvent(ReasonEvent):
    """No broker answers the membership; it goes on trying."""

    event: Literal["broker_unavailable"]


class LookupFailedEvent(ReasonEvent):
    """The brokers did not answer a question; the worker goes on without the answer or asks again."""

    event: Literal["lookup_failed"]
    what: str
    """What was asked for."""


class WarningsEvent(WarningEvent):
    """At start: what is unusual about the state directory."""

    event: Literal["warnings"]


class StateWipedEvent(BaseEvent):
    """At start: state was deleted that was older than ``state_cleanup_dir_max_age_ms``."""

    event: Literal["state_wiped"]
    tasks: list[str]


class StateDirMadeAnewEvent(BaseEvent):
    """The state directory was missing while the process runs, and was created again."""

    event: Literal["state_dir_made_anew"]
    path: str


class ListeningEvent(BaseEvent):
    """The sidecar accepts connections."""

    event: Literal["listening"]
    socket: str


class SessionBeganEvent(BaseEvent):
    """An application opened the sidecar's session."""

    event: Literal["session_began"]


class SessionEndedEvent(BaseEvent):
    """The sidecar's session ended; the next session reads again what the application had not committed."""

    event: Literal["session_ended"]
    uncommitted: bool
    """Whether the session left records or writes whose commit it had not asked for or had not seen finish."""


class HttpListeningEvent(BaseEvent):
    """Health, metrics and the status page are served."""

    event: Literal["http_listening"]
    url: str
    warnings: list[str]
    """Not empty where other machines may connect."""


class HttpFailedEvent(WarningEvent):
    """A request to the HTTP server failed with an error of the server's."""

    event: Literal["http_failed"]


class ClosedEvent(BaseEvent):
    """The process has ended: tasks are closed, and the group is left if it was to be left. The last event."""

    event: Literal["closed"]
    error: str | None
    """Type and message of the error that ended the process; null after a close."""
