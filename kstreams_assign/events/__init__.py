"""Every event that a worker, a sidecar or a group member reports to ``on_event``, as a value.

``Event`` is the union of all types, and the one list of them: ``EVENTS``. A listener matches by type::

    def on_event(event: Event) -> None:
        match event:
            case AssignedEvent(generation=generation, active=tasks):
                print(generation, tasks)
            case TaskStoppedEvent(task=task, reason=reason):
                print(task, reason)

The docstring of a type says when the event happens, and the string below a field what it holds; the reference is
generated from both. ``--json-log`` prints ``event.as_dict()``. What must not live here: who reports an event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from kstreams_assign.events.base import BaseEvent, WarningEvent, WithWarnings
from kstreams_assign.events.commits import (
    ClientHungEvent,
    CommitDeferredEvent,
    CommitRefusedEvent,
    DeliveryFailedEvent,
    OffsetsDroppedEvent,
    PurgeFailedEvent,
    TransactionAbortedEvent,
    TransactionRestartedEvent,
)
from kstreams_assign.events.global_tables import (
    GlobalTableReadingEvent,
    GlobalTableReadyEvent,
    GlobalTableRebuiltEvent,
    GlobalTableStoppedEvent,
)
from kstreams_assign.events.group import (
    AdoptedEvent,
    AssignedEvent,
    AwaitedTasksEvent,
    DecisionEvent,
    DrainRefusedEvent,
    EarlyProbeEvent,
    EarlyProbingOffEvent,
    GroupStatusEvent,
    JoiningEvent,
    LeaveFailedEvent,
    LostEvent,
    MemberNotKeptEvent,
    NoRoomEvent,
    Placement,
    PredecessorRemovedEvent,
    PredecessorStaysEvent,
    ProgressUnreadableEvent,
    RestartAnnouncedEvent,
    ShutdownRefusedEvent,
    ShutdownRequestedEvent,
    StalledEvent,
    WarmingElsewhereEvent,
    WarmingUpEvent,
    WarmJoinAloneEvent,
    WarmJoinEvent,
    WarmLeaveEvent,
    WarmLeaveOffEvent,
)
from kstreams_assign.events.process import (
    BrokerUnavailableEvent,
    ClosedEvent,
    HttpFailedEvent,
    HttpListeningEvent,
    ListeningEvent,
    LookupFailedEvent,
    QueryFailedEvent,
    QueryListeningEvent,
    SessionBeganEvent,
    SessionEndedEvent,
    StateDirMadeAnewEvent,
    StateWipedEvent,
    WarningsEvent,
)
from kstreams_assign.events.tasks import (
    BatchLimitedEvent,
    FirstRecordEvent,
    FunctionFailedEvent,
    InputOutOfRangeEvent,
    OpenTransaction,
    RecordSetAsideEvent,
    RestorePace,
    RestoringEvent,
    RunningEvent,
    StatusEvent,
    StoreDiscardedEvent,
    StoreFailedEvent,
    StoreWipedEvent,
    TaskFailedEvent,
    TaskPausedEvent,
    TaskResumedEvent,
    TaskStatus,
    TaskStoppedEvent,
    WaitingForTransactionsEvent,
)

__all__ = [
    "EVENTS",
    "AdoptedEvent",
    "AssignedEvent",
    "AwaitedTasksEvent",
    "BaseEvent",
    "BatchLimitedEvent",
    "BrokerUnavailableEvent",
    "ClientHungEvent",
    "ClosedEvent",
    "CommitDeferredEvent",
    "CommitRefusedEvent",
    "DecisionEvent",
    "DeliveryFailedEvent",
    "DrainRefusedEvent",
    "EarlyProbeEvent",
    "EarlyProbingOffEvent",
    "Event",
    "EventListener",
    "FirstRecordEvent",
    "FunctionFailedEvent",
    "GlobalTableReadingEvent",
    "GlobalTableReadyEvent",
    "GlobalTableRebuiltEvent",
    "GlobalTableStoppedEvent",
    "GroupStatusEvent",
    "HttpFailedEvent",
    "HttpListeningEvent",
    "InputOutOfRangeEvent",
    "JoiningEvent",
    "LeaveFailedEvent",
    "ListeningEvent",
    "LookupFailedEvent",
    "LostEvent",
    "MemberNotKeptEvent",
    "NoRoomEvent",
    "OffsetsDroppedEvent",
    "OpenTransaction",
    "Placement",
    "PredecessorRemovedEvent",
    "PredecessorStaysEvent",
    "ProgressUnreadableEvent",
    "PurgeFailedEvent",
    "QueryFailedEvent",
    "QueryListeningEvent",
    "RecordSetAsideEvent",
    "RestartAnnouncedEvent",
    "RestorePace",
    "RestoringEvent",
    "RunningEvent",
    "SessionBeganEvent",
    "SessionEndedEvent",
    "ShutdownRefusedEvent",
    "ShutdownRequestedEvent",
    "StalledEvent",
    "StateDirMadeAnewEvent",
    "StateWipedEvent",
    "StatusEvent",
    "StoreDiscardedEvent",
    "StoreFailedEvent",
    "StoreWipedEvent",
    "TaskFailedEvent",
    "TaskPausedEvent",
    "TaskResumedEvent",
    "TaskStatus",
    "TaskStoppedEvent",
    "TransactionAbortedEvent",
    "TransactionRestartedEvent",
    "WaitingForTransactionsEvent",
    "WarmJoinAloneEvent",
    "WarmJoinEvent",
    "WarmLeaveEvent",
    "WarmLeaveOffEvent",
    "WarmingElsewhereEvent",
    "WarmingUpEvent",
    "WarningEvent",
    "WarningsEvent",
    "WithWarnings",
]

Event = (
    JoiningEvent
    | AssignedEvent
    | AdoptedEvent
    | LostEvent
    | DecisionEvent
    | EarlyProbeEvent
    | EarlyProbingOffEvent
    | ProgressUnreadableEvent
    | StalledEvent
    | PredecessorRemovedEvent
    | PredecessorStaysEvent
    | MemberNotKeptEvent
    | NoRoomEvent
    | WarmingUpEvent
    | WarmJoinEvent
    | WarmJoinAloneEvent
    | WarmingElsewhereEvent
    | WarmLeaveEvent
    | WarmLeaveOffEvent
    | AwaitedTasksEvent
    | GroupStatusEvent
    | DrainRefusedEvent
    | RestartAnnouncedEvent
    | ShutdownRefusedEvent
    | ShutdownRequestedEvent
    | LeaveFailedEvent
    | StatusEvent
    | RestoringEvent
    | RunningEvent
    | FirstRecordEvent
    | BatchLimitedEvent
    | TaskFailedEvent
    | TaskStoppedEvent
    | TaskPausedEvent
    | TaskResumedEvent
    | StoreDiscardedEvent
    | StoreWipedEvent
    | FunctionFailedEvent
    | RecordSetAsideEvent
    | StoreFailedEvent
    | InputOutOfRangeEvent
    | WaitingForTransactionsEvent
    | GlobalTableReadingEvent
    | GlobalTableReadyEvent
    | GlobalTableStoppedEvent
    | GlobalTableRebuiltEvent
    | CommitDeferredEvent
    | OffsetsDroppedEvent
    | CommitRefusedEvent
    | DeliveryFailedEvent
    | TransactionAbortedEvent
    | TransactionRestartedEvent
    | ClientHungEvent
    | PurgeFailedEvent
    | BrokerUnavailableEvent
    | LookupFailedEvent
    | WarningsEvent
    | StateWipedEvent
    | StateDirMadeAnewEvent
    | ListeningEvent
    | SessionBeganEvent
    | SessionEndedEvent
    | HttpListeningEvent
    | HttpFailedEvent
    | QueryListeningEvent
    | QueryFailedEvent
    | ClosedEvent
)
"""Any event."""

EVENTS: tuple[type[Event], ...] = get_args(Event)
"""The type of every event."""

EventListener = Callable[[Event], None]
"""Type of ``on_event``. It is called on the thread where the event happens, one call at a time, and must return
soon: events of other threads are delivered on the thread of a call that takes long, after it. It may call the worker's
methods; events that they cause are delivered after it returns."""
