"""Predict what a change does to a streams group (KIP-1071): which tasks move, and how long each may be silent.

The broker assigns by ``assign.streams_group`` and makes no warm-ups. So a task that moves to a process without its
state is silent while that is restored. ``classic_outcome`` plays the same change in a classic group with our assignor,
which warms up first. Pure: no clock, no randomness, no I/O. What must not live here: the broker's rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from uuid import NAMESPACE_URL, UUID, uuid5

from kstreams_assign.assign import AssignConfig, Client, Cluster, StreamsMember
from kstreams_assign.assign.streams_group import (
    StreamsGroupInput,
    Target,
    predict_join,
    predict_leave,
    predict_standbys,
)
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import RUNNING_OFFSET_SUM, TaskId
from kstreams_assign.observe.changes import Alternative, check_leaving
from kstreams_assign.observe.group_state import state_of_cluster
from kstreams_assign.observe.what_if import Outcome, predict

HEARTBEAT_INTERVAL_MS = 5_000
"""Kafka's default of ``streams.heartbeat.interval.ms``."""
ID_SAMPLES = 12
"""New members and processes have random ids, which decide ties. So many sets of ids are played."""


@dataclass(frozen=True, slots=True)
class StreamsGroupState:
    """A streams group at rest. ``restore_offsets``: stateful task -> offsets in its changelogs, begin to end.

    ``away``: the processes whose members have closed and are to come back; they run nothing.
    """

    group: StreamsGroupInput
    restore_offsets: Mapping[TaskId, int]
    heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS
    away: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class StreamsChange:
    """A change of a streams group: first processes leave, then the setting changes, then processes without state join.

    ``remove`` has process ids. ``threads`` is the number of members of each added process.
    """

    add: int = 0
    threads: int = 1
    remove: tuple[str, ...] = ()
    num_standby_replicas: int | None = None

    def __post_init__(self) -> None:
        if self.add < 0 or self.threads < 1:
            raise ConfigError(f"add is {self.add}, threads is {self.threads}: must be at least 0 and 1")
        if self.num_standby_replicas is not None and self.num_standby_replicas < 0:
            raise ConfigError(f"num_standby_replicas is {self.num_standby_replicas}: must be at least 0")


@dataclass(frozen=True, slots=True)
class StreamsMove:
    """An active task that moves. ``is_warm``: it was a standby in the process that gets it.

    ``can_join_warm``: the process that gets it joins, and can restore it first (``warm_join``), as another one runs it
    meanwhile: its owner stays, or a standby takes over from one that leaves.
    ``restore_offsets``: what the process has to read first; 0 for a warm or stateless task. ``silence_ms`` is the least
    and the most time without output: the least if the owner restores this task first and its heartbeat is due, the most
    if it restores all others first and has just sent a heartbeat. None if the restore rate is not known.
    ``away``: the task's old or new process if that is away: the task runs nowhere until it is back or its session ends,
    and how long it is silent is not known.
    """

    task: TaskId
    source: str
    destination: str
    is_warm: bool
    restore_offsets: int
    silence_ms: tuple[int, int] | None
    can_join_warm: bool
    away: str | None = None


@dataclass(frozen=True, slots=True)
class StreamsOutcome:
    """The outcome of a change.

    ``moves`` and ``new_standbys`` (replicas to be built) are of the most likely target for the first set of new ids.
    ``owner_changes_range``: the fewest and most moves over all sets of new ids and all targets that are possible.
    """

    change: StreamsChange
    moves: tuple[StreamsMove, ...]
    new_standbys: int
    owner_changes_range: tuple[int, int]

    @property
    def cold(self) -> tuple[StreamsMove, ...]:
        """The tasks that are silent while their state is restored."""
        return tuple(move for move in self.moves if move.restore_offsets)

    @property
    def cold_with_warm_join(self) -> tuple[StreamsMove, ...]:
        """The tasks that are silent also if the processes that join are workers, which restore theirs first."""
        return tuple(move for move in self.cold if not move.can_join_warm)

    @property
    def silence_ms_max(self) -> int | None:
        """The longest silence of any task; None if it is not known. 0 if nothing moves."""
        silences = [move.silence_ms for move in self.moves]
        if None in silences:
            return None
        return max((most for _, most in filter(None, silences)), default=0)


def predict_streams_change(
    state: StreamsGroupState, change: StreamsChange, offsets_per_s: int | None = None
) -> StreamsOutcome:
    """Play a change of a streams group. ``offsets_per_s``: how fast one process restores.

    Raises ``ConfigError`` for a process that is not in the group or is named twice, for a rate below 1, and if no
    process would be left.
    """
    if offsets_per_s is not None and offsets_per_s < 1:
        raise ConfigError(f"offsets_per_s is {offsets_per_s}: must be at least 1")
    before = _by_process(state.group.members)
    check_leaving(change.remove, sorted(before))
    if not change.add and before.keys() <= set(change.remove):
        raise ConfigError("no process would be left in the group: remove fewer, or add some")
    samples = ID_SAMPLES if change.add else 1
    groups = [group for sample in range(samples) for group in _changed(state.group, change, sample)]
    counts = [len(_moved(before, _by_process(group.members))) for group in groups]
    after = _by_process(groups[0].members)
    remaining = _by_process(_without(state.group, change.remove).members)
    moves = _moves(state, before, remaining, after, offsets_per_s)
    standbys = {(name, task) for name, (_, standby) in after.items() for task in standby}
    held = {(name, task) for name, replicas in before.items() for task in replicas[0] | replicas[1]}
    return StreamsOutcome(change, moves, len(standbys - held), (min(counts), max(counts)))


def classic_outcome(state: StreamsGroupState, change: StreamsChange, offsets_per_s: int | None = None) -> Outcome:
    """Play the same change in a classic group of our members with the assignor ``least_movement``.

    Raises ``ConfigError`` as ``predict_streams_change`` does.
    """
    group = state.group
    threads: dict[str, int] = {}
    for member in group.members:
        threads[member.process_id] = threads.get(member.process_id, 0) + 1
    stateful = frozenset(state.restore_offsets)
    clients = tuple(
        Client(
            process_id=_uuid(name),
            capacity=threads[name],
            prev_active=active,
            prev_standby=standby,
            lags={**dict.fromkeys(standby, 0), **dict.fromkeys(active & stateful, RUNNING_OFFSET_SUM)},
        )
        for name, (active, standby) in _by_process(group.members).items()
    )
    tasks = {TaskId(number, n) for number, each in group.subtopologies.items() for n in range(each.tasks)}
    cluster = Cluster(clients, stateful, frozenset(tasks - stateful))
    config = AssignConfig(num_standby_replicas=group.num_standby_replicas)
    settings = {} if change.num_standby_replicas is None else {"num_standby_replicas": change.num_standby_replicas}
    alternative = Alternative(
        add=change.add, threads=change.threads, remove=tuple(map(_uuid, change.remove)), settings=settings
    )
    classic = state_of_cluster(cluster, state.restore_offsets, config, "least_movement")
    return predict(classic, alternative, offsets_per_s=offsets_per_s)


def cold_in_classic_group(outcome: Outcome) -> int:
    """Return how many active tasks of ``classic_outcome`` are restored while no process runs them."""
    return sum(len(generation.cold | generation.adopted_behind) for generation in outcome.generations)


Replicas = tuple[frozenset[TaskId], frozenset[TaskId]]
"""Active tasks and standbys."""


def _changed(group: StreamsGroupInput, change: StreamsChange, sample: int) -> list[StreamsGroupInput]:
    """Return the groups that can come of the change, most likely first, with one set of new ids."""
    group = _without(group, change.remove)
    if change.num_standby_replicas is not None:
        group = replace(group, num_standby_replicas=change.num_standby_replicas)
        group = _with_target(group, predict_standbys(group, change.num_standby_replicas).likely, ())
    groups = [group]
    for number in range(change.add):
        newcomers = _newcomers(sample, number, change.threads)
        targets = predict_join(groups[0], newcomers).targets
        groups = [_with_target(groups[0], target, newcomers) for target in targets]
    return groups


def _without(group: StreamsGroupInput, processes: Collection[str]) -> StreamsGroupInput:
    """Return the group once these have left, and before others join."""
    leaving = [member.member_id for member in group.members if member.process_id in processes]
    return _with_target(group, predict_leave(group, leaving).likely, ()) if leaving else group


def _with_target(group: StreamsGroupInput, target: Target, newcomers: Iterable[StreamsMember]) -> StreamsGroupInput:
    members = [member for member in (*group.members, *newcomers) if member.member_id in target]
    placed = [(member, target[member.member_id]) for member in members]
    return replace(group, members=tuple(replace(member, active=to.active, standby=to.standby) for member, to in placed))


def _newcomers(sample: int, number: int, threads: int) -> list[StreamsMember]:
    process = f"{uuid5(NAMESPACE_URL, f'process {sample} {number}')}"
    return [
        StreamsMember(f"{uuid5(NAMESPACE_URL, f'member {sample} {number} {thread}')}", process)
        for thread in range(threads)
    ]


def _by_process(members: Iterable[StreamsMember]) -> dict[str, Replicas]:
    replicas: dict[str, Replicas] = {}
    for member in members:
        active, standby = replicas.get(member.process_id, (frozenset(), frozenset()))
        replicas[member.process_id] = active | member.active, standby | member.standby
    return replicas


def _owners(replicas: Mapping[str, Replicas]) -> dict[TaskId, str]:
    return {task: name for name, (active, _) in replicas.items() for task in active}


def _moved(before: Mapping[str, Replicas], after: Mapping[str, Replicas]) -> list[TaskId]:
    """Return the tasks whose process changes. A task without an owner before does not move."""
    owners, next_owners = _owners(before), _owners(after)
    return sorted(task for task, name in owners.items() if next_owners.get(task, name) != name)


def _moves(
    state: StreamsGroupState,
    before: Mapping[str, Replicas],
    remaining: Mapping[str, Replicas],
    after: Mapping[str, Replicas],
    offsets_per_s: int | None,
) -> tuple[StreamsMove, ...]:
    owners, next_owners = _owners(before), _owners(after)
    warm = {task for name, (active, _) in remaining.items() for task in active & frozenset().union(*before[name])}
    restores: dict[TaskId, int] = {}
    reads: dict[str, int] = {}
    for task in _moved(before, after):
        name = next_owners[task]
        is_warm = task in before.get(name, ((), ()))[1]
        restores[task] = 0 if is_warm else state.restore_offsets.get(task, 0)
        reads[name] = reads.get(name, 0) + restores[task]
    moves = []
    for task, offsets in restores.items():
        source, destination = owners[task], next_owners[task]
        stays_away = state.away & {destination, *({source} & remaining.keys())}
        silence_ms = _silence_ms(offsets, reads[destination], offsets_per_s, state.heartbeat_interval_ms)
        moves.append(
            StreamsMove(
                task,
                source,
                destination,
                is_warm=task in before.get(destination, ((), ()))[1],
                restore_offsets=offsets,
                silence_ms=None if stays_away else silence_ms,
                can_join_warm=destination not in before and task in warm and not stays_away,
                away=min(stays_away, default=None),
            )
        )
    return tuple(moves)


def _silence_ms(own: int, all_of_process: int, offsets_per_s: int | None, interval_ms: int) -> tuple[int, int] | None:
    """The old owner reports the release at once; the new owner learns of its task by its next heartbeat."""
    if not own:
        return 0, interval_ms
    if offsets_per_s is None:
        return None
    return own * 1000 // offsets_per_s, interval_ms + -(-all_of_process * 1000 // offsets_per_s)


def _uuid(process_id: str) -> UUID:
    """Return the process id as an assignor takes it. Kafka Streams' own are UUIDs."""
    try:
        return UUID(process_id)
    except ValueError:
        return uuid5(NAMESPACE_URL, process_id)
