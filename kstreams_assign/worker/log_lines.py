"""A worker's events as the lines that an operator reads: one sentence each, the subject first.

``LogLines`` reads every event and answers with lines. It remembers what the events before said (which tasks a member
has, which processes a leader placed tasks on), so a line says what changed. It reads no clock: times come from the
events' ``time_ms``. Events that are not in its table, and facts that no operator follows, make no line; the listener
(``--json-log``) has them all.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from kstreams_assign.observe.reasons import span

Facts = Mapping[str, Any]

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
        self._placements: Mapping[str, Mapping[str, Sequence[str]]] | None = None
        self._decided = False
        self._restored_records = 0
        self._most_remaining: dict[str, int] = {}
        self._warned_ms: dict[tuple[str, str], int] = {}
        self._table: Mapping[str, Callable[[Facts], Iterable[str]]] = {
            "joining": _joining,
            "decision": self._decision,
            "assigned": self._assigned,
            "status": self._status,
            "restoring": self._restoring,
            "running": self._running,
            "lost": self._lost,
            "predecessor_removed": lambda e: [
                f"This member removed {_count(len(e['members']), 'member')} of a killed predecessor from the group."
            ],
            "shutdown_requested": lambda e: [f"The group shuts the application down: {e['reason']}; this worker ends."],
            "broker_unavailable": lambda e: [f"The broker does not answer ({e['reason']}); this member tries again."],
            "lookup_failed": lambda e: [f"A look-up of {e['what']} failed ({e['reason']}); it is tried again."],
            "commit_refused": lambda e: [
                f"The group refused a commit ({e['reason']}); its tasks go on from the last commit."
            ],
            "transaction_aborted": lambda e: [
                f"The transaction of {_tasks(e['tasks'])} is aborted ({e['reason']}); its records are processed again."
            ],
            "task_failed": _task_failed,
            "function_failed": _function_failed,
            "task_stopped": lambda e: [
                f"Task {e['task']} is stopped ({e['reason']}); it is tried again in {span(e['retry_ms'])}."
            ],
            "task_resumed": lambda e: [f"Task {e['task']} works again."],
            "store_discarded": lambda e: [
                f"The state of task {e['task']} is deleted and restored from its changelogs ({e['reason']})."
            ],
            "store_failed": lambda e: [
                f"Task {e['task']} cannot write its store ({e['reason']}) and goes on from its last commit."
            ],
            "state_wiped": lambda e: [f"The state of {_tasks(e['tasks'])} was too old and is deleted."],
            "state_dir_made_anew": lambda e: [
                f"The state directory {e['path']} was deleted; it is created again, empty."
            ],
            "input_out_of_range": lambda e: [
                f"Input was deleted before it was processed ({e['reason']}): {e['reset']} (auto_offset_reset) is next."
            ],
            "batch_limited": lambda e: [f"Batches are at most {e['records']:,} records now: {e['limit']}."],
            "predecessor_stays": lambda e: [
                f"A killed predecessor stays in the group until its session ends: {e['reason']}."
            ],
            "leave_failed": lambda e: [
                f"LeaveGroup of this member failed ({e['reason']}); the group drops it when its session ends."
            ],
            "listening": lambda e: [f"The sidecar waits for its application at {e['socket']}."],
            "http_listening": lambda e: [f"Health, metrics and the status page are at {e['url']}."],
            "session_began": lambda _: ["The application has connected."],
            "session_ended": _session_ended,
            "closed": lambda e: [
                f"This worker has ended by an error: {e['error']}." if e["error"] else "This worker is closed."
            ],
        }

    @property
    def events(self) -> frozenset[str]:
        """The events that make lines."""
        return frozenset(self._table)

    def lines(self, event: Facts) -> list[Line]:
        """What this event says to an operator, if anything."""
        name = event["event"]
        write = self._table.get(name)
        if write is None:
            return []
        level = _level(event)
        return [Line(level, text) for text in write(event) if self._is_fresh(event, text, level)]

    def _is_fresh(self, event: Facts, text: str, level: int) -> bool:
        """Whether a warning was not logged lately: some come at each attempt."""
        if level < logging.WARNING:
            return True
        key = event["event"], text
        now_ms: int = event["time_ms"]
        self._warned_ms = {seen: at_ms for seen, at_ms in self._warned_ms.items() if now_ms - at_ms < REPEAT_MS}
        return self._warned_ms.setdefault(key, now_ms) == now_ms

    # --- the leader ------------------------------------------------------------------

    def _decision(self, event: Facts) -> Iterator[str]:
        before, placements = self._placements, event["placements"]
        self._placements, self._decided = placements, True
        if event["error"] or not placements:
            return  # its warnings say why
        counts = _counts({role: _sum(placements, role) for role in ROLES})
        yield (
            f"This member leads the group and assigned {counts} to {_count(len(placements), 'process', 'es')} "
            f"({event['assignor']}, {event['seconds'] * 1000:.0f} ms)."
        )
        if before is not None:
            yield from _came_and_went(before.keys(), placements.keys())
        yield from _moves(event["changed"])
        if event["adopted"]:
            yield f"{_tasks(event['adopted'], capital=True)} had no owner and got one."
        if event["withheld"]:
            wait, them = ("waits", "it") if len(event["withheld"]) == 1 else ("wait", "them")
            tasks = _tasks(event["withheld"], capital=True)
            yield f"{tasks} {wait} for the current owner to release {them}; a follow-up rebalance comes next."
        warming = {process: placed["warmup"] for process, placed in placements.items() if placed["warmup"]}
        for process, tasks in _some(sorted(warming.items())):
            warm = "warms" if len(tasks) == 1 else "warm"
            yield f"{_tasks(tasks, capital=True)} {warm} up on process {_short(process)}."

    # --- this member -----------------------------------------------------------------

    def _assigned(self, event: Facts) -> Iterator[str]:
        if not self._decided:
            self._placements = None  # another member led: what changed since then is not known here
        self._decided, before = False, self._assignment
        roles = {task: role for role in ROLES for task in event[role]}
        had = before.role_by_task if before else {}
        running = {task for task, role in had.items() if role == "active"} - (before.to_restore if before else set())
        self._assignment = _Assignment(event["time_ms"], roles, {*event["active"]} - running)
        self._restored_records = 0
        if before is None:
            parts = [f"{_count(len(event[role]), NAMES[role])} ({_list(event[role])})" for role in ROLES if event[role]]
            yield f"Generation {event['generation']} gives this member {_and(parts) or 'no task'}."
        else:
            has = _counts({role: len(event[role]) for role in ROLES})
            yield f"Generation {event['generation']} gives this member {has}: {_changes(had, roles)}."
        yield from self._probe(event)

    def _probe(self, event: Facts) -> Iterator[str]:
        before, due_ms = self._next_probe_ms, event["next_probe_ms"]
        self._next_probe_ms = due_ms
        if due_ms is not None and due_ms > event["time_ms"]:
            if before is None or _clock(due_ms) != _clock(before):
                left_ms = due_ms - event["time_ms"]
                yield f"The next probing rebalance is due in {span(left_ms)}, at {_clock(due_ms)}."
        elif due_ms is None and before is not None and not event["follow_up"]:
            yield "No probing rebalance is due: the group has reached its target assignment."

    def _status(self, event: Facts) -> Iterator[str]:
        """No line: it notes how much each task had to restore, so that a line can say how much of it is done."""
        remaining = {task: pace["remaining"] for task, pace in event["restoring"].items()}
        self._most_remaining = {task: max(left, self._most_remaining.get(task, 0)) for task, left in remaining.items()}
        return iter(())

    def _restoring(self, event: Facts) -> Iterator[str]:
        remaining, rate = event["remaining"], event["offsets_per_s"]
        total = sum(self._most_remaining.get(task, 0) for task in event["tasks"])
        done = f"{100 * (total - remaining) // total} % done, " if total >= remaining > 0 else ""
        pace = f" at {rate:,} a second" if rate else ""
        left = f", about {span(event['left_s'] * 1000)} left" if event["left_s"] is not None else ""
        yield f"This member restores {_tasks(event['tasks'])}: {done}{remaining:,} records to go{pace}{left}."

    def _running(self, event: Facts) -> Iterator[str]:
        """One line when the last of the assigned tasks runs, and not one a task."""
        self._restored_records += event["restored"]
        assignment = self._assignment
        if assignment is None or event["task"] not in assignment.to_restore:
            return
        assignment.to_restore.discard(event["task"])
        if assignment.to_restore:
            return
        tasks = _count(sum(role == "active" for role in assignment.role_by_task.values()), NAMES["active"])
        passed_ms, restored = event["time_ms"] - assignment.since_ms, self._restored_records
        self._restored_records = 0
        after = f"{span(passed_ms)} after" if passed_ms >= 1_000 else "within a second of"
        yield f"This member runs its {tasks}, {after} the assignment; {_count(restored, 'record')} restored."

    def _lost(self, event: Facts) -> Iterator[str]:
        count = sum(role == "active" for role in self._assignment.role_by_task.values()) if self._assignment else 0
        self._assignment = None
        yield (
            f"This member lost its place in the group and its {_count(count, NAMES['active'])}: {event['reason']}; "
            "it drops what is not committed and joins again."
        )


WARNINGS = frozenset(
    {
        "lost",
        "shutdown_requested",
        "broker_unavailable",
        "lookup_failed",
        "commit_refused",
        "transaction_aborted",
        "task_failed",
        "task_stopped",
        "store_discarded",
        "store_failed",
        "state_dir_made_anew",
        "input_out_of_range",
        "predecessor_stays",
        "leave_failed",
    }
)
"""Events whose lines are at level WARNING; the others' are at INFO, errors of the user's function at ERROR."""

SUBJECTS = {
    "early_probing_off": "Early probing is off: ",
    "progress_unreadable": "A progress record cannot be read: ",
    "http_failed": "A request to the status server failed: ",
    "delivery_failed": "Records were not delivered, and their tasks go on from the last commit: ",
}


def warning_line(event: str, warning: str) -> str:
    """A warning that came with an event. Most are sentences of their own."""
    return f"{SUBJECTS.get(event, '')}{warning}"


def _level(event: Facts) -> int:
    if event["event"] == "function_failed":
        return logging.ERROR
    return logging.WARNING if event["event"] in WARNINGS else logging.INFO


# --- sentences ---------------------------------------------------------------------------


def _joining(event: Facts) -> Iterator[str]:
    if event["reason"] == "first join":
        yield f"Process {_short(event['process_id'])} joins the group (process id {event['process_id']})."
    else:
        yield f"This member joins the next generation: {event['reason']}."


def _session_ended(event: Facts) -> Iterator[str]:
    again, done = "uncommitted records are read again by the next session", "all its work is committed"
    yield f"The application has disconnected; {again if event['uncommitted'] else done}."


def _function_failed(event: Facts) -> Iterator[str]:
    yield (
        f"The function of task {event['task']} raised {event['reason']} at {event['partition']} offset "
        f"{event['offset']} (batch of {_count(event['records'], 'record')}); nothing of the batch is committed, and "
        "this worker ends."
    )


def _task_failed(event: Facts) -> Iterator[str]:
    pause = f" in {event['pause_ms'] / 1000:.1f} s" if event["pause_ms"] else ""
    yield f"Task {event['task']} goes on from its last commit{pause}: {event['reason']}."


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


def _sum(placements: Mapping[str, Mapping[str, Sequence[str]]], role: str) -> int:
    return sum(len(placed[role]) for placed in placements.values())


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
