"""A worker's events as the lines that an operator reads: one sentence each, the subject first.

``LogLines`` reads every event and answers with lines. It remembers what the events before said (which tasks a member
has, which processes a leader placed tasks on), so a line says what changed. It reads no clock: times come from the
events' ``time_ms``. Details that no operator follows make no line; the listener (``--json-log``) has them all.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, assert_never

from kstreams_assign import events
from kstreams_assign.events import Event, Placement, WarningEvent
from kstreams_assign.observe.reasons import span

ROLES = ("active", "standby", "warmup")
NAMES = {"active": "active task", "standby": "standby", "warmup": "warm-up"}
TASKS_SHOWN_MAX = 8
MOVES_SHOWN_MAX = 4
ID_LENGTH = 8
REPEAT_MS = 30_000
"""A warning with the same text is logged again after this time."""


class Line(NamedTuple):
    level: int
    text: str


class _Assignment(NamedTuple):
    """This member's tasks as last assigned, and which of the active ones are not running yet."""

    since_ms: int
    role_by_task: Mapping[str, str]
    to_restore: set[str]


class LogLines:
    """The lines of one process. Events are given in the order they happened, by one thread at a time."""

    def __init__(self) -> None:
        self._assignment: _Assignment | None = None
        self._next_probe_ms: int | None = None
        self._placements: Mapping[str, Placement] | None = None
        self._decided = False
        self._restored_records = 0
        self._most_remaining: dict[str, int] = {}
        self._warned_ms: dict[tuple[str, str], int] = {}

    def lines(self, event: Event) -> list[Line]:
        """What this event says to an operator, if anything."""
        level = event.level
        return [Line(level, text) for text in self._sentences(event) if self._is_fresh(event, text, level)]

    def _is_fresh(self, event: Event, text: str, level: int) -> bool:
        """Whether a warning was not logged lately: some come at each attempt."""
        if level < logging.WARNING:
            return True
        key = event.name, text
        now_ms = event.time_ms
        self._warned_ms = {seen: at_ms for seen, at_ms in self._warned_ms.items() if now_ms - at_ms < REPEAT_MS}
        return self._warned_ms.setdefault(key, now_ms) == now_ms

    def _sentences(self, event: Event) -> Iterator[str]:  # noqa: C901, PLR0912, PLR0915  # a case for each event
        match event:
            case events.JoiningEvent():
                yield _joining(event)
            case events.DecisionEvent():
                yield from self._decision(event)
            case events.AssignedEvent():
                yield from self._assigned(event)
            case events.StatusEvent():
                self._note(event)
            case events.RestoringEvent():
                yield from self._restoring(event)
            case events.RunningEvent():
                yield from self._running(event)
            case events.LostEvent():
                yield from self._lost(event)
            case events.PredecessorRemovedEvent(members=members):
                yield f"This member removed {_count(len(members), 'member')} of a killed predecessor from the group."
            case events.PredecessorStaysEvent(reason=reason):
                yield f"A killed predecessor stays in the group until its session ends: {reason}."
            case events.WarmingUpEvent(tasks=tasks, leavers=leavers) if leavers:
                yield f"This process restores {_tasks(tasks)}; their owners leave the group after that."
            case events.WarmingUpEvent(tasks=tasks, joiners=joiners):
                others = f" together with {_count(len(joiners), 'other process', 'es')}" if joiners else ""
                before = f"before it joins the group{others}; their owners go on meanwhile"
                yield f"This process restores {_tasks(tasks)} {before}."
            case events.WarmJoinEvent(reason=reason):
                yield f"This process joins the streams group now: {reason}."
            case events.WarmingElsewhereEvent(tasks=owners, away=away):
                conditions = [f"others have restored {_tasks(tuple(owners))}"] if owners else []
                conditions += [f"{instance} is back or its session has ended" for instance in away]
                yield f"This member drains: it leaves once {', and '.join(conditions)}."
            case events.WarmLeaveEvent(reason=reason):
                yield f"This member leaves the streams group now: {reason}."
            case events.AwaitedTasksEvent(missing=missing) if missing:
                yield f"{_tasks(missing).capitalize()} did not come to this member, although it was prepared for them."
            case events.RestartAnnouncedEvent(awaited=awaited):
                wait = "its tasks without a caught-up replica wait for it" if awaited else "no task waits for it"
                yield f"This process leaves the group for a restart; {wait}."
            case events.ShutdownRequestedEvent(reason=reason):
                yield f"The group shuts the application down: {reason}; this worker ends."
            case events.LeaveFailedEvent(reason=reason):
                yield f"LeaveGroup of this member failed ({reason}); the group drops it when its session ends."
            case events.BrokerUnavailableEvent(reason=reason):
                yield f"The broker does not answer ({reason}); this member tries again."
            case events.LookupFailedEvent(what=what, reason=reason):
                yield f"A look-up of {what} failed ({reason}); it is tried again."
            case events.CommitRefusedEvent(reason=reason):
                yield f"The group refused a commit ({reason}); its tasks go on from the last commit."
            case events.TransactionAbortedEvent(tasks=tasks, reason=reason):
                yield f"The transaction of {_tasks(tasks)} is aborted ({reason}); its records are processed again."
            case events.TransactionRestartedEvent(tasks=tasks, reason=reason):
                yield f"The transaction of {_tasks(tasks)} is begun again ({reason})."
            case events.TaskFailedEvent():
                yield _task_failed(event)
            case events.FunctionFailedEvent():
                yield _function_failed(event)
            case events.RecordSetAsideEvent():
                yield _record_set_aside(event)
            case events.TaskStoppedEvent(task=task, reason=reason, retry_ms=retry_ms):
                yield f"Task {task} is stopped ({reason}); it is tried again in {span(retry_ms)}."
            case events.TaskPausedEvent(task=task):
                yield f"Task {task} is paused; its input is not read until it is resumed."
            case events.TaskResumedEvent(task=task):
                yield f"Task {task} works again."
            case events.StoreDiscardedEvent(task=task, reason=reason):
                yield f"The state of task {task} is deleted and restored from its changelogs ({reason})."
            case events.StoreFailedEvent(task=task, reason=reason):
                yield f"Task {task} cannot write its store ({reason}) and goes on from its last commit."
            case events.GlobalTableReadingEvent():
                yield _table_reading(event)
            case events.GlobalTableReadyEvent(table=table, topic=topic, offsets=offsets):
                yield f"Global table {table} is complete: {_count(offsets, 'offset')} of topic {topic} read."
            case events.GlobalTableStoppedEvent(table=table, reason=reason, retry_ms=retry_ms):
                yield f"Global table {table} is not kept up to date ({reason}); it is tried again in {span(retry_ms)}."
            case events.GlobalTableRebuiltEvent(table=table, reason=reason):
                yield f"Global table {table} is built again from the start of its topic ({reason})."
            case events.StateWipedEvent(tasks=tasks):
                yield f"The state of {_tasks(tasks)} was too old and is deleted."
            case events.StateDirMadeAnewEvent(path=path):
                yield f"The state directory {path} was deleted; it is created again, empty."
            case events.InputOutOfRangeEvent(reason=reason, reset=reset):
                yield f"Input was deleted before it was processed ({reason}): {reset} (auto_offset_reset) is next."
            case events.BatchLimitedEvent(limit=limit, records=records):
                yield f"Batches are at most {records:,} records now: {limit}."
            case events.ListeningEvent(socket=socket):
                yield f"The sidecar waits for its application at {socket}."
            case events.HttpListeningEvent(url=url):
                yield f"Health, metrics and the status page are at {url}."
            case events.QueryListeningEvent(address=address, endpoint=endpoint):
                yield f"Queries are answered at {address}; other processes ask at {endpoint}."
            case events.SessionBeganEvent():
                yield "The application has connected."
            case events.SessionEndedEvent(uncommitted=uncommitted):
                yield _session_ended(uncommitted=uncommitted)
            case events.ClosedEvent(error=error):
                yield f"This worker has ended by an error: {error}." if error else "This worker is closed."
            case WarningEvent() | events.DeliveryFailedEvent() | events.WaitingForTransactionsEvent():
                pass  # their warnings are logged
            case (
                events.AdoptedEvent()
                | events.AwaitedTasksEvent()
                | events.EarlyProbeEvent()
                | events.FirstRecordEvent()
                | events.StoreWipedEvent()
                | events.CommitDeferredEvent()
            ):
                pass  # details, for listeners
            case _:
                assert_never(event)

    # --- the leader ------------------------------------------------------------------

    def _decision(self, event: events.DecisionEvent) -> Iterator[str]:
        before, placements = self._placements, event.placements
        self._placements, self._decided = placements, True
        if event.error or not placements:
            return  # its warnings say why
        counts = _counts({role: _sum(placements.values(), role) for role in ROLES})
        yield (
            f"This member leads the group and assigned {counts} to {_count(len(placements), 'process', 'es')} "
            f"({event.assignor}, {event.seconds * 1000:.0f} ms)."
        )
        if before is not None:
            yield from _came_and_went(before.keys(), placements.keys())
        yield from _moves(event.changed)
        if event.adopted:
            yield f"{_tasks(event.adopted, capital=True)} had no owner and got one."
        if event.withheld:
            wait, them = ("waits", "it") if len(event.withheld) == 1 else ("wait", "them")
            tasks = _tasks(event.withheld, capital=True)
            yield f"{tasks} {wait} for the current owner to release {them}; a follow-up rebalance comes next."
        for process in sorted(set(event.waiting.values())):
            own = [task for task, awaited in event.waiting.items() if awaited == process]
            wait, them = ("waits", "it") if len(own) == 1 else ("wait", "them")
            left = "" if event.wait_ends_ms is None else f", {span(max(0, event.wait_ends_ms - event.time_ms))} at most"
            whose = f"process {_short(process)}, which restarts and has the state of {them}"
            yield f"{_tasks(own, capital=True)} {wait} for {whose}{left}."
        for process, placed in _some(sorted(placements.items())):
            own = [task for task in placed.active if task in event.restored_sooner]
            if own:
                are, them = ("is", "it") if len(own) == 1 else ("are", "them")
                yield (
                    f"{_tasks(own, capital=True)} {are} restored on process {_short(process)}: no process had caught "
                    f"up, and one that has more of {them} would be later."
                )
        warming = {process: placed.warmup for process, placed in placements.items() if placed.warmup}
        for process, tasks in _some(sorted(warming.items())):
            warm = "warms" if len(tasks) == 1 else "warm"
            yield f"{_tasks(tasks, capital=True)} {warm} up on process {_short(process)}."

    # --- this member -----------------------------------------------------------------

    def _assigned(self, event: events.AssignedEvent) -> Iterator[str]:
        if not self._decided:
            self._placements = None  # another member led: what changed since then is not known here
        self._decided, before = False, self._assignment
        placed = _by_role(event)
        roles = {task: role for role, tasks in placed.items() for task in tasks}
        had = before.role_by_task if before else {}
        running = {task for task, role in had.items() if role == "active"} - (before.to_restore if before else set())
        self._assignment = _Assignment(event.time_ms, roles, {*event.active} - running)
        self._restored_records = 0
        if before is None:
            yield f"Generation {event.generation} gives this member {_with_roles(placed) or 'no task'}."
        else:
            has = _counts({role: len(tasks) for role, tasks in placed.items()})
            yield f"Generation {event.generation} gives this member {has}: {_changes(had, roles)}."
        yield from self._probe(event)

    def _probe(self, event: events.AssignedEvent) -> Iterator[str]:
        before, due_ms = self._next_probe_ms, event.next_probe_ms
        self._next_probe_ms = due_ms
        if due_ms is not None and due_ms > event.time_ms:
            if before is None or _clock(due_ms) != _clock(before):
                left_ms = due_ms - event.time_ms
                yield f"The next probing rebalance is due in {span(left_ms)}, at {_clock(due_ms)}."
        elif due_ms is None and before is not None and not event.follow_up:
            yield "No probing rebalance is due: the group has reached its target assignment."

    def _note(self, status: events.StatusEvent) -> None:
        """Note how much each task had to restore, so that a line can say how much of it is done."""
        remaining = {task: pace.remaining for task, pace in status.restoring.items()}
        self._most_remaining = {task: max(left, self._most_remaining.get(task, 0)) for task, left in remaining.items()}

    def _restoring(self, event: events.RestoringEvent) -> Iterator[str]:
        remaining, rate = event.remaining, event.offsets_per_s
        total = sum(self._most_remaining.get(task, 0) for task in event.tasks)
        done = f"{100 * (total - remaining) // total} % done, " if total >= remaining > 0 else ""
        pace = f" at {rate:,} a second" if rate else ""
        left = f", about {span(event.left_s * 1000)} left" if event.left_s is not None else ""
        yield f"This member restores {_tasks(event.tasks)}: {done}{remaining:,} records to go{pace}{left}."

    def _running(self, event: events.RunningEvent) -> Iterator[str]:
        """One line when the last of the assigned tasks runs, and not one a task."""
        self._restored_records += event.restored
        assignment = self._assignment
        if assignment is None or event.task not in assignment.to_restore:
            return
        assignment.to_restore.discard(event.task)
        if assignment.to_restore:
            return
        tasks = _count(sum(role == "active" for role in assignment.role_by_task.values()), NAMES["active"])
        passed_ms, restored = event.time_ms - assignment.since_ms, self._restored_records
        self._restored_records = 0
        after = f"{span(passed_ms)} after" if passed_ms >= 1_000 else "within a second of"
        yield f"This member runs its {tasks}, {after} the assignment; {_count(restored, 'record')} restored."

    def _lost(self, event: events.LostEvent) -> Iterator[str]:
        count = sum(role == "active" for role in self._assignment.role_by_task.values()) if self._assignment else 0
        self._assignment = None
        yield (
            f"This member lost its place in the group and its {_count(count, NAMES['active'])}: {event.reason}; "
            "it drops what is not committed and joins again."
        )


SUBJECTS: Mapping[type[Event], str] = {
    events.EarlyProbingOffEvent: "Early probing is off: ",
    events.ProgressUnreadableEvent: "A progress record cannot be read: ",
    events.HttpFailedEvent: "A request to the status server failed: ",
    events.QueryFailedEvent: "A query failed: ",
    events.DeliveryFailedEvent: "Records were not delivered, and their tasks go on from the last commit: ",
}


def warning_line(kind: type[Event], warning: str) -> str:
    """A warning that came with an event of this type. Most are sentences of their own."""
    return f"{SUBJECTS.get(kind, '')}{warning}"


# --- sentences ---------------------------------------------------------------------------


def _joining(event: events.JoiningEvent) -> str:
    if event.reason == "first join":
        return f"Process {_short(event.process_id)} joins the group (process id {event.process_id})."
    return f"This member joins the next generation: {event.reason}."


def _session_ended(*, uncommitted: bool) -> str:
    again, done = "uncommitted records are read again by the next session", "all its work is committed"
    return f"The application has disconnected; {again if uncommitted else done}."


def _function_failed(event: events.FunctionFailedEvent) -> str:
    if event.call:
        return (
            f"A call of task {event.task} ({event.call}) raised {event.reason}; nothing of it is committed, and this "
            "worker ends."
        )
    return (
        f"The function of task {event.task} raised {event.reason} at {event.partition} offset "
        f"{event.offset} (batch of {_count(event.records, 'record')}); nothing of the batch is committed, and "
        "this worker ends."
    )


def _record_set_aside(event: events.RecordSetAsideEvent) -> str:
    where = "is sent to the dead-letter topic" if event.response == "dead_letter" else "is skipped"
    if event.call:
        return (
            f"A call of task {event.task} ({event.call}) {where}: it raised {event.reason}. Further calls of this "
            "cause are only counted."
        )
    if event.offset < 0:
        return (
            f"An output of task {event.task} for {event.partition} {where}: {event.reason}. Further outputs of this "
            "cause are only counted."
        )
    return (
        f"The record at {event.partition} offset {event.offset} {where}: task {event.task} raised {event.reason}. "
        "Further records of this cause are only counted."
    )


def _task_failed(event: events.TaskFailedEvent) -> str:
    pause = f" in {event.pause_ms / 1000:.1f} s" if event.pause_ms else ""
    return f"Task {event.task} goes on from its last commit{pause}: {event.reason}."


def _came_and_went(before: AbstractSet[str], now: AbstractSet[str]) -> Iterator[str]:
    for processes, verb in ((now - before, "joined"), (before - now, "left")):
        if processes:
            names = _and([_short(process) for process in sorted(processes)])
            yield f"{'Process' if len(processes) == 1 else 'Processes'} {names} {verb} the group."


def _moves(changed: Mapping[str, Sequence[str]]) -> Iterator[str]:
    tasks_by_way = defaultdict(list)
    for task, (old, new) in changed.items():
        tasks_by_way[old, new].append(task)
    for (old, new), tasks in _some(sorted(tasks_by_way.items())):
        moves = "moves" if len(tasks) == 1 else "move"
        yield f"{_tasks(tasks, capital=True)} {moves} from process {_short(old)} to process {_short(new)}."


def _changes(had: Mapping[str, str], has: Mapping[str, str]) -> str:
    """``it gains 1 standby (0_1) and gives up 1 active task (0_1)``.

    A change of role is a gain of the new role; it is also a loss where the task was active.
    """
    gained = defaultdict(list)
    for task, role in has.items():
        if had.get(task) != role:
            gained[role].append(task)
    given_up = defaultdict(list)
    for task, role in had.items():
        if task not in has or (role == "active" and has[task] != "active"):
            given_up[role].append(task)
    parts = ((verb, tasks) for verb, tasks in (("gains", gained), ("gives up", given_up)) if tasks)
    changes = " and ".join(f"{verb} {_with_roles(tasks)}" for verb, tasks in parts)
    return f"it {changes}" if changes else "the same as before"


def _with_roles(tasks_by_role: Mapping[str, Sequence[str]]) -> str:
    return _and([f"{_count(len(t), NAMES[role])} ({_list(t)})" for role in ROLES if (t := tasks_by_role.get(role))])


def _by_role(placed: Placement | events.AssignedEvent) -> dict[str, Sequence[str]]:
    return {"active": placed.active, "standby": placed.standby, "warmup": placed.warmup}


def _sum(placements: Iterable[Placement], role: str) -> int:
    return sum(len(_by_role(placed)[role]) for placed in placements)


def _table_reading(event: events.GlobalTableReadingEvent) -> str:
    left = "" if event.left_s is None else f", about {span(event.left_s * 1000)} left"
    return (
        f"Global table {event.table} is being read: {_count(event.remaining, 'offset')} of topic {event.topic} "
        f"{'remains' if event.remaining == 1 else 'remain'}{left}. It can be read when it is complete."
    )


def _counts(count_by_role: Mapping[str, int]) -> str:
    return _and([_count(count, NAMES[role]) for role, count in count_by_role.items() if count]) or "no task"


def _count(count: int, noun: str, plural: str = "s") -> str:
    return f"{count:,} {noun}{'' if count == 1 else plural}"


def _tasks(tasks: Sequence[str], *, capital: bool = False) -> str:
    word = "task" if len(tasks) == 1 else f"{len(tasks):,} tasks"
    if capital:
        word = word.capitalize()
    return f"{word} {_list(tasks)}" if len(tasks) == 1 else f"{word} ({_list(tasks)})"


def _list(tasks: Sequence[str]) -> str:
    more = len(tasks) - TASKS_SHOWN_MAX
    return ", ".join(tasks) if more <= 0 else f"{', '.join(tasks[:TASKS_SHOWN_MAX])} and {more:,} more"


def _and(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def _some(items: Sequence[Any]) -> Sequence[Any]:
    return items[:MOVES_SHOWN_MAX]


def _short(process: str) -> str:
    return process[:ID_LENGTH]


def _clock(time_ms: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(time_ms / 1000))
