"""What each rebalance of a recorded group would have been under other settings: pure, one group at a time.

A generation that changed something (its processes or its tasks) is a question: all processes with the state that they
had before it. The question is given to the leader again, under each alternative, and played on until no member asks for
a rebalance (``observe.what_if``). Generations that changed nothing only continued the one before. What lives here: rows
of the tables -> questions -> answers. What must not: Spark, files, ranking.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any, NamedTuple
from uuid import UUID

from kstreams_assign.assign import AssignConfig, Client, Cluster, TaskLags
from kstreams_assign.errors import ConfigError, InvalidTaskId
from kstreams_assign.history.seen import shows_state
from kstreams_assign.history.tables import STREAMS_PROTOCOL
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId
from kstreams_assign.observe.changes import Alternative
from kstreams_assign.observe.group_state import ends_not_known, state_of_cluster
from kstreams_assign.observe.what_if import Outcome, predict

STANDBYS = "num_standby_replicas"
STREAMS_GROUP = "streams groups (KIP-1071): the broker assigns their tasks; ask kstreams-assign what-if GROUP"
REBALANCES_MAX = 2_000
"""Of one replay: a group of 100 members under Java's settings takes some hundred."""

Row = Mapping[str, Any]
Subtopology = tuple[str | None, int]
"""Its named topology, if any, and its number."""

Copies = dict[TaskId, set[UUID]]


@dataclass
class Recorded:
    """One stable or empty generation as the tables have it. ``sums``: process -> what it reported as it joined.

    ``with_state``: tasks that these reports show to have state. ``unclaimed``: partitions of sampled changelogs whose
    subtopology is not known.
    """

    place: tuple[int, int]
    generation: int
    threads: Counter[UUID] = field(default_factory=Counter)
    tags: dict[UUID, dict[str, str]] = field(default_factory=dict)
    unreadable: int = 0
    active: dict[TaskId, UUID] = field(default_factory=dict)
    copies: Copies = field(default_factory=dict)
    warmups: Copies = field(default_factory=dict)
    sums: dict[UUID, dict[TaskId, int]] = field(default_factory=dict)
    ends: dict[TaskId, int] = field(default_factory=dict)
    with_state: set[TaskId] = field(default_factory=set)
    unclaimed: set[tuple[str, int]] = field(default_factory=set)

    @property
    def tasks(self) -> set[TaskId]:
        return {*self.active, *self.copies}


@dataclass(frozen=True, slots=True)
class RebalanceInput:
    """The members' tasks before a generation. ``ends`` is None where they were not sampled.

    A task that is just being held back counts as its old owner's, though that one has let it go already.
    """

    generation: int
    place: tuple[int, int]
    cluster_of: Recorded
    owners: Mapping[TaskId, UUID]
    tasks: frozenset[TaskId]
    stateful: frozenset[TaskId]
    ends: Mapping[TaskId, int] | None


class Answer(NamedTuple):
    """One question under one alternative, by its number. ``skew``: tasks a thread, most minus least, at the end."""

    generation: int
    offsets_partition: int
    offsets_offset: int
    alternative: int
    owner_changes: int
    lower_bound: int
    rounds: int
    rebalances: int
    skew: float
    without_standby: int
    ends_sampled: bool
    converged: bool


@dataclass(frozen=True)
class Replayed:
    """A group's answers; how many generations went on with the one before, and how many cannot be replayed, and why."""

    answers: list[Answer]
    continued: int
    left_out: Counter[str]


def replay(group: Mapping[str, Iterable[Row] | None], alternatives: Sequence[Alternative]) -> Replayed:
    """``group``: table -> rows of one group (``rebalances``, ``members``, ``task_placements``, ``end_offsets``).

    Rebalances of streams groups are left out. What was before and after them are two histories, and so are a group that
    was deleted and the one that was created again under its name.
    """
    parts = [_recorded(group, part) for part in _classic_parts(group)]
    answers: list[Answer] = []
    left_out: Counter[str] = Counter({"nothing is known of what was before": len(parts)} if parts else {})
    streams = sum(not is_classic(row) for row in group.get("rebalances") or ())
    if streams:
        left_out[STREAMS_GROUP] = streams
    continued = 0
    for question, standbys in chain.from_iterable(map(_questions_of, parts)):
        if isinstance(question, str):
            left_out[question] += 1
        elif question is None:
            continued += 1
        else:
            try:
                answers += [
                    _answer(question, number, alternative, standbys) for number, alternative in enumerate(alternatives)
                ]
            except ConfigError as wrong:
                left_out[str(wrong)] += 1
    return Replayed(answers, continued, left_out)


def is_classic(rebalance: Row) -> bool:
    """Whether a leader of the group decided, so another one can be asked."""
    return bool(rebalance["protocol"] != STREAMS_PROTOCOL)


def _classic_parts(group: Mapping[str, Iterable[Row] | None]) -> list[list[Row]]:
    """The generations of classic groups in the order of the topic, cut where a streams group or nothing was before."""
    parts: list[list[Row]] = []
    begins = True
    for row in sorted(group.get("rebalances") or (), key=_place):
        if not is_classic(row):
            begins = True
            continue
        if begins or row["cause"] == "first":
            parts.append([])
        parts[-1].append(row)
        begins = False
    return parts


def _recorded(group: Mapping[str, Iterable[Row] | None], rebalances: Sequence[Row]) -> list[Recorded]:
    """What is known of these generations, in their order."""
    by_place = {_place(row): Recorded(_place(row), row["generation"]) for row in rebalances}
    for table, note in NOTES.items():
        for row in group.get(table) or ():
            if (generation := by_place.get(_place(row))) is not None:
                try:
                    note(generation, row)
                except InvalidTaskId:  # from damaged bytes, in tables of an earlier release
                    generation.unreadable += 1
    return list(by_place.values())


def _place(row: Row) -> tuple[int, int]:
    return row["offsets_partition"], row["offsets_offset"]


def _note_member(generation: Recorded, row: Row) -> None:
    if row["process_id"] is None:
        generation.unreadable += 1
        return
    process = UUID(row["process_id"])
    generation.threads[process] += 1
    generation.tags[process] = dict(row["tags"] or ())
    reported = {TaskId.parse(task): total for task, total in row["offset_sums"] or ()}
    generation.sums[process] = {**generation.sums.get(process, {}), **reported}
    generation.with_state |= {task for task, total in reported.items() if shows_state(total, row["version"])}


def _note_placement(generation: Recorded, row: Row) -> None:
    if row["process_id"] is None:
        return
    task, process = TaskId.parse(row["task"]), UUID(row["process_id"])
    if row["role"] == "active":
        generation.active[task] = process
    else:
        generation.copies.setdefault(task, set()).add(process)
    if row["role"] == "warmup":
        generation.warmups.setdefault(task, set()).add(process)


def _note_end(generation: Recorded, row: Row) -> None:
    if row["task"] is None:
        generation.unclaimed.add((row["topic"], row["partition"]))
        return
    task = TaskId.parse(row["task"])
    generation.ends[task] = generation.ends.get(task, 0) + row["end_offset"]


NOTES: Mapping[str, Callable[[Recorded, Row], None]] = {
    "members": _note_member,
    "task_placements": _note_placement,
    "end_offsets": _note_end,
}
"""Table -> what takes one of its rows; ``InvalidTaskId`` if it names a task of a negative number."""


def _stateful(part: Sequence[Recorded]) -> set[Subtopology]:
    """Return the subtopologies with state: one of its tasks has a copy or a changelog, or a report shows its state.

    A report before version 7 does not show whether a task that ran has state. Then a sampled changelog shows it: one
    that has as many partitions as the subtopology has tasks, and as no subtopology with state has.
    """
    shown = {
        _subtopology(task)
        for generation in part
        for task in (*generation.copies, *generation.ends, *generation.with_state)
    }
    reported = {task for generation in part for sums in generation.sums.values() for task in sums}
    tasks = Counter(map(_subtopology, reported.union(*(generation.tasks for generation in part))))
    unclaimed = {partition for generation in part for partition in generation.unclaimed}
    sizes = {*Counter(topic for topic, _ in unclaimed).values()} - {tasks[subtopology] for subtopology in shown}
    return shown | {subtopology for subtopology in map(_subtopology, reported) if tasks[subtopology] in sizes}


def _subtopology(task: TaskId) -> Subtopology:
    return task.topology, task.subtopology


def _standbys(recorded: Iterable[Recorded], stateful: set[Subtopology]) -> int:
    """How many standbys each stateful task had, as most generations of two processes or more had it."""
    seen: Counter[int] = Counter()
    for generation in recorded:
        held = [task for task in generation.active if _subtopology(task) in stateful]
        if len(generation.threads) > 1 and held:
            seen[min(len(generation.copies.get(t, set()) - generation.warmups.get(t, set())) for t in held)] += 1
    return seen.most_common(1)[0][0] if seen else 0


def _questions_of(part: Sequence[Recorded]) -> Iterator[tuple[RebalanceInput | str | None, int]]:
    """The questions of one history, each with how many standbys the group had."""
    stateful = _stateful(part)
    standbys = _standbys(part, stateful)
    return ((question, standbys) for question in _questions(part, stateful))


def _questions(recorded: Sequence[Recorded], stateful: set[Subtopology]) -> Iterator[RebalanceInput | str | None]:
    """For each generation after the first: the question, None where there is none, or why it cannot be put.

    A task that is placed neither now nor later is not held back: the application no longer has it.
    """
    last_placed = {task: number for number, generation in enumerate(recorded) for task in generation.tasks}
    owners: dict[TaskId, UUID] = {}
    tasks: set[TaskId] = set()
    for number, (before, now) in enumerate(pairwise(recorded), start=1):
        owners |= before.active
        known = tasks | before.tasks
        tasks = {task for task in known | now.tasks if last_placed[task] >= number}
        if not now.threads and not now.unreadable:
            continue
        if now.unreadable:
            yield "members that cannot be read"
            continue
        if now.threads == before.threads and tasks <= known:
            yield None
            continue
        held = frozenset(task for task in tasks if _subtopology(task) in stateful)
        sampled = not now.unclaimed and held <= now.ends.keys()
        yield RebalanceInput(
            now.generation,
            now.place,
            now,
            dict(owners),
            frozenset(tasks),
            held,
            now.ends if sampled else None,
        )


def _answer(question: RebalanceInput, number: int, alternative: Alternative, standbys: int) -> Answer:
    config = AssignConfig(**{STANDBYS: standbys, **alternative.settings})
    ends = ends_not_known(question.stateful, config) if question.ends is None else question.ends
    assignor = alternative.assignor or "high_availability"
    state = state_of_cluster(_cluster(question, ends), ends, config, assignor, rebalance_in_ms=0)
    outcome = predict(state, Alternative(), generations_max=REBALANCES_MAX)
    return Answer(
        question.generation,
        *question.place,
        number,
        outcome.owner_changes,
        outcome.lower_bound,
        outcome.rounds,
        outcome.rebalances,
        _skew(outcome, question.cluster_of.threads),
        outcome.tasks_without_standby,
        question.ends is not None,
        outcome.converged,
    )


def _cluster(question: RebalanceInput, ends: Mapping[TaskId, int]) -> Cluster:
    """All processes of the generation, with the tasks that they ran and the other state that they reported."""
    now = question.cluster_of
    clients = []
    for process, threads in now.threads.items():
        reported = now.sums.get(process, {})
        active = frozenset(task for task in question.tasks if question.owners.get(task) == process)
        copies = frozenset(reported) & question.tasks - active
        sums = {task: RUNNING_OFFSET_SUM for task in active if task in ends}
        sums |= {task: _position(question, reported[task], ends[task]) for task in copies if task in ends}
        clients.append(Client(process, threads, active, copies, TaskLags(ends, sums), now.tags[process]))
    return Cluster(tuple(clients), question.stateful, question.tasks - question.stateful)


def _position(question: RebalanceInput, reported: int, end: int) -> int:
    """Where a copy is: as it was reported, against ends that were sampled; else it has caught up."""
    return end if question.ends is None or reported == RUNNING_OFFSET_SUM else reported


def _skew(outcome: Outcome, threads: Mapping[UUID, int]) -> float:
    placements = outcome.generations[-1].decision.placements
    loads = [len(placed.active) / threads[process] for process, placed in placements.items()]
    return max(loads, default=0.0) - min(loads, default=0.0)
