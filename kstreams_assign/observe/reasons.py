"""A description in sentences: why the group is in this state, and what comes next. Nothing is computed here.

A process is named by the shortest unique prefix of its id.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from uuid import UUID

from kstreams_assign.group.loads import UNITS
from kstreams_assign.group.values import ErrorCode
from kstreams_assign.model import UNKNOWN_OFFSET_SUM, TaskId
from kstreams_assign.observe.cluster import ObservedGroup
from kstreams_assign.observe.describe import Description, Move
from kstreams_assign.observe.lags import CopyLag, Stalled
from kstreams_assign.observe.snapshot import STABLE

EMPTY, PREPARING, COMPLETING = "Empty", "PreparingRebalance", "CompletingRebalance"
SHORTEST_NAME = 8
TASKS_SHOWN = 12
SENTENCES_SHOWN = 8
WAYS_SHOWN = 6

_ERRORS: Mapping[int, str] = {
    ErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA: "a source topic does not exist",
    ErrorCode.VERSION_PROBING: "version probing: the group agrees on a version first",
    ErrorCode.ASSIGNMENT_ERROR: "the leader could not assign",
    ErrorCode.SHUTDOWN_REQUESTED: "a member asked the whole application to shut down",
}


def process_names(processes: Iterable[UUID]) -> dict[UUID, str]:
    """Return the shortest unique prefixes of the ids."""
    texts = {process: str(process) for process in processes}
    for length in range(SHORTEST_NAME, 36):
        if len({text[:length] for text in texts.values()}) == len(texts):
            return {process: text[:length].rstrip("-") for process, text in texts.items()}
    return texts


def reasons(about: Description, slow: Collection[Stalled] = ()) -> list[str]:
    """Return sentences, the most urgent first. ``slow``: replicas whose lag did not shrink."""
    group = about.group
    names = process_names(group.decoded.view.processes)
    state = group.decoded.snapshot.state
    if state == EMPTY:
        return ["the group has no members: no process runs its tasks"]
    if not group.decoded.processes and (state != STABLE or not group.decoded.unreadable):
        unread = f"the group is in the state {state}: its assignment can be read once it is stable"
        return ["; ".join([unread, *_newcomers(group, names)])]
    parts: list[Callable[[], list[str]]] = [
        lambda: _troubles(group),
        lambda: _rebalance(group, names),
        lambda: _between(about, names),
        lambda: _paused(about),
        lambda: _probe(about, names),
        lambda: _waiting(about, names),
        lambda: _restored_sooner(about, names),
        lambda: [_slow(copy, group, names) for copy in slow],
        lambda: _balance_by_load(about, names) if about.loads else _balance(about),
        lambda: _losses(about, names),
        lambda: _racks(about),
    ]
    return [sentence for part in parts for sentence in part()]


def _troubles(group: ObservedGroup) -> list[str]:
    decoded = group.decoded
    unreadable = [f"member {member} cannot be read: {'; '.join(why)}" for member, why in decoded.unreadable.items()]
    errors = [
        f"member {member} has error code {code}: {_ERRORS.get(code, 'see the logs')}"
        for member, code in decoded.errors.items()
    ]
    versions = sorted({process.report.version for process in decoded.processes})
    mixed = [f"members speak the versions {', '.join(map(str, versions))}; the lowest counts"]
    leaving = process_names(decoded.view.processes)
    drains = [
        f"{leaving[process]} is about to leave: each of its tasks moves once another process has caught up"
        for process in sorted(decoded.view.draining, key=str)
    ]
    chosen = [group.choice.warning] if group.choice.warning and group.ends_known else []
    return [*unreadable, *errors, *(mixed if len(versions) > 1 else []), *drains, *chosen]


def _rebalance(group: ObservedGroup, names: Mapping[UUID, str]) -> list[str]:
    """Describe what a rebalance waits for. The brokers do not report which members have joined again."""
    snapshot = group.decoded.snapshot
    if snapshot.state == COMPLETING:
        begun = "all members have joined: the rebalance waits for the leader's assignment"
    elif snapshot.state == PREPARING:
        stay = _holders(group, [member for member in group.decoded.members if member not in snapshot.left], names)
        have = "has" if len(stay) == 1 else "have"
        within = f", in {span(snapshot.rebalance_timeout_ms)} at the latest" if snapshot.rebalance_timeout_ms else ""
        awaited = f"it ends once {_listed(stay)} {have} joined again{within} (the brokers do not report which have)"
        begun = f"a rebalance has begun: {awaited if stay else 'it waits for more members to join'}"
    else:
        return []
    return ["; ".join([begun, *_newcomers(group, names)])]


def _newcomers(group: ObservedGroup, names: Mapping[UUID, str]) -> list[str]:
    """Return which members join, and which have left since the last generation."""
    snapshot = group.decoded.snapshot
    joining = [f"{member.client_id} ({member.client_host.removeprefix('/')})" for member in snapshot.joining]
    left = _holders(group, snapshot.left, names)
    return [*([f"joining: {_listed(joining)}"] if joining else []), *([f"left: {_listed(left)}"] if left else [])]


def _holders(group: ObservedGroup, members: Collection[str], names: Mapping[UUID, str]) -> list[str]:
    """Return the names of the processes of these members, and the ids of those whose process is not known."""
    process_of = {each.member_id: process.process_id for process in group.decoded.processes for each in process.members}
    known = (names[process_of[member]] if member in process_of else member for member in members)
    return list(dict.fromkeys(known))


def _between(about: Description, names: Mapping[UUID, str]) -> list[str]:
    promised = about.group.decoded.promised
    waiting = [f"{task} (for {names.get(process, process)})" for task, process in sorted(promised.items())]
    withheld = [f"between two owners until the follow-up rebalance: {', '.join(waiting)}"] if waiting else []
    lost = [task for task in about.unowned if task not in about.group.decoded.waiting]
    unowned = [f"no process runs in this generation: {task_list(lost)}"] if lost else []
    return withheld + _awaits(about.group) + unowned


def _awaits(group: ObservedGroup) -> list[str]:
    """Describe the processes that restart, and the tasks that wait for them."""
    decoded, sentences = group.decoded, []
    for process, each in sorted(decoded.awaited.items(), key=lambda item: str(item[0])):
        tasks = [task for task, awaited in decoded.waiting.items() if awaited == process]
        wait = f": {task_list(tasks)} wait for it" if tasks else "; no task waits for it"
        sentences.append(f"{str(process)[:SHORTEST_NAME]} restarts{wait}, {span(each.left_ms)} at most")
    return sentences


def _paused(about: Description) -> list[str]:
    """Describe the paused tasks; a member that is not ours does not know of pauses."""
    if not about.paused:
        return []
    taken_ms, owners = about.group.decoded.snapshot.taken_ms, about.group.owners
    ours = {process.process_id for process in about.group.decoded.processes if process.ours}
    tasks = [f"{task} (for {span(taken_ms - since_ms)})" for task, since_ms in about.paused.items()]
    working = [task for task in about.paused if owners.get(task) not in ours]
    java = [f"not ours, so processed though paused: {task_list(working)}"] if working else []
    return [f"paused: {_listed(tasks)}", *java]


def _probe(about: Description, names: Mapping[UUID, str]) -> list[str]:
    group = about.group
    due_ms = group.decoded.next_rebalance_ms
    moves = move_list(about.next_moves, names)
    if due_ms is None:
        if group.decoded.snapshot.state != STABLE:
            return []  # one is under way
        late = [f"a rebalance would move {moves}, but none is due"] if about.next_moves else []
        return ["no probing rebalance is due", *late]
    if due_ms == 0:
        return _follow_up(about, names)
    latest = " at the latest" if group.decoded.trailer else ""  # our members may report earlier that they are ready
    when = f"the next probing rebalance is {_due(due_ms - group.decoded.snapshot.taken_ms)}{latest}"
    if not group.ends_known:
        return [f"{when}; changelog end offsets are not known here, so what it moves is not either"]
    kept = _listed([f"{task} on {names[process]}" for task, process in about.next_standbys])
    changes = [*([f"moves {moves}"] if moves else []), *([f"keeps as standbys {kept}"] if about.next_standbys else [])]
    if not changes:
        return [f"{when}; as far as known, it would move nothing"]
    afterwards = ", then probes go on" if about.will_probe else ", then the group is settled"
    return [f"{when}; once the warm-ups have caught up it {' and '.join(changes)}{afterwards}"]


def _follow_up(about: Description, names: Mapping[UUID, str]) -> list[str]:
    """Describe a follow-up: tasks that no process runs are assigned at once, all others wait for their warm-up."""
    given = move_list([move for move in about.next_moves if move.source is None], names)
    later = move_list([move for move in about.next_moves if move.source is not None], names)
    out = f", as far as known with {given}" if given else ""
    after = [f"once the warm-ups have caught up, a later one moves {later}"] if later else []
    return [f"a follow-up rebalance comes at once{out}", *after]


def _waiting(about: Description, names: Mapping[UUID, str]) -> list[str]:
    """Describe the warm-ups that are behind, the worst first; then those that have caught up."""
    behind = sorted((c for c in about.waiting if not c.ready), key=lambda c: (c.stuck is None, -(c.lag or 0), c.task))
    done = [f"{copy.task} on {names[copy.process]}" for copy in about.waiting if copy.ready]
    sentences = first([_waits(copy, about, names) for copy in behind], "warm-ups that have not caught up")
    return sentences + ([f"warmed up, waiting for the next probe: {_listed(done)}"] if done else [])


def _restored_sooner(about: Description, names: Mapping[UUID, str]) -> list[str]:
    """Describe the tasks that are not restored where most of their state is."""
    targets = sorted({move.target for move in about.restored_sooner}, key=str)
    tasks = {target: [move.task for move in about.restored_sooner if move.target == target] for target in targets}
    return [
        f"no process had caught up with {task_list(tasks[target])}: {names[target]} restores them, "
        "sooner than a process that has more of their state"
        for target in targets
    ]


def _waits(copy: CopyLag, about: Description, names: Mapping[UUID, str]) -> str:
    group = about.group
    acceptable = f"{group.config.acceptable_recovery_lag:,} at most"
    if not group.config.acceptable_recovery_lag:
        acceptable = "0 at most, which a changelog with writes hardly reaches"
    on = f"{copy.task} warms up on {names[copy.process]}{_thread(group, copy)}"
    if copy.stuck:
        return f"{on} and cannot catch up: {copy.stuck}"
    if copy.reported == UNKNOWN_OFFSET_SUM:
        return f"{on}, which reports no position of it: it may be handed over before its state is there"
    if copy.lag is None:
        return f"{on}; where its changelog ends is not known here"
    behind = _behind(group, copy.task)
    if copy.reported is None:
        return f"{on}: {_when(group)} it had nothing of {copy.lag:,} offsets of {behind}; it may lag {acceptable}"
    return f"{on}: {_when(group)} it lagged {copy.lag:,} behind {behind}; it may lag {acceptable}"


def _thread(group: ObservedGroup, copy: CopyLag) -> str:
    """Return the member that has the replica, if the process has several members."""
    process = next(process for process in group.decoded.processes if process.process_id == copy.process)
    holders = [m for m in process.members if m.given and copy.task in m.given.standby | m.given.warmup]
    return f" ({holders[0].described.client_id})" if holders and len(process.members) > 1 else ""


def _behind(group: ObservedGroup, task: TaskId) -> str:
    """Return the changelogs, the longest first."""
    ends = group.decoded.snapshot.end_offsets
    logs = sorted(group.changelogs[task], key=lambda log: -ends.get(log, 0))
    return (
        " and ".join(f"{log} ({ends.get(log, 0):,})" if len(logs) > 1 else str(log) for log in logs) or "no changelog"
    )


def _slow(copy: Stalled, group: ObservedGroup, names: Mapping[UUID, str]) -> str:
    return (
        f"{copy.task} on {names.get(copy.process, copy.process)} does not catch up: "
        f"it lagged {copy.before:,} at one join and {copy.after:,} at a later one, "
        f"so {_behind(group, copy.task)} grows as fast as it is read"
    )


def _balance(about: Description) -> list[str]:
    if about.balanced:
        moves = len(about.next_moves)
        later = f"; the assignor still moves {moves:,} {'task' if moves == 1 else 'tasks'}" if moves else ""
        spread = "the subtopologies run on equal numbers of processes, give or take one"
        return [f"balanced: tasks per thread differ by one at most, and {spread}{later}"]
    uneven = [] if about.balanced_instances else ["tasks per thread differ by more than one"]
    skewed = [] if about.balanced_subtopologies else ["subtopologies run on unequal numbers of processes"]
    bare = ["some tasks have no owner"] if about.unowned else []
    moving = [] if about.at_rest else ["a rebalance has not ended"]
    settled = "" if moving or about.probing or about.next_moves else "; it is the best that this assignor finds"
    return [f"not balanced: {' and '.join([*bare, *uneven, *skewed, *moving])}{settled}"]


def _balance_by_load(about: Description, names: Mapping[UUID, str]) -> list[str]:
    balance_by = about.group.config.balance_by
    heaviest = sorted(about.loads.items(), key=lambda item: (-item[1], str(item[0])))
    shown = ", ".join(f"{load:,} on {names.get(process, str(process))}" for process, load in heaviest[:WAYS_SHOWN])
    more = len(heaviest) - WAYS_SHOWN
    loads = f"{UNITS[balance_by]}: {shown}{f' and {more:,} more processes' if more > 0 else ''}"
    if about.unowned:
        return [f"not balanced by {balance_by}: some tasks have no owner ({loads})"]
    if not about.at_rest:
        return [f"not balanced by {balance_by}: a rebalance has not ended ({loads})"]
    if about.balanced_instances:
        return [f"balanced by {balance_by}: no task whose move would even out two processes enough ({loads})"]
    return [f"not balanced by {balance_by}: a move would even out two processes ({loads})"]


def _losses(about: Description, names: Mapping[UUID, str]) -> list[str]:
    group = about.group
    if not group.ends_known:
        return []
    sizes = {task: end - group.begin_offset_sums[task] for task, end in group.end_offset_sums.items()}
    bare = {process: [task for task in tasks if sizes[task]] for process, tasks in about.restores.items()}
    certain = [
        f"losing {names[process]} would cost a restore of {task_list(tasks)} "
        f"(up to {sum(sizes[task] for task in tasks):,} records): no other process has a replica"
        for process, tasks in bare.items()
        if tasks
    ]
    perhaps = [
        f"losing {names[process]} may cost a restore of {task_list(tasks)}: "
        f"the replicas elsewhere were behind {_when(group)}"
        for process, tasks in about.risks.items()
        if tasks
    ]
    return first(certain, "such processes") + first(perhaps, "such processes")


def _when(group: ObservedGroup) -> str:
    """Return when positions were last reported."""
    snapshot = group.decoded.snapshot
    if snapshot.assigned_ms is None:
        return "at the last join"
    return f"at the last join {span(snapshot.taken_ms - snapshot.assigned_ms)} ago"


def _racks(about: Description) -> list[str]:
    sentences = []
    for rack in about.racks:
        values = ", ".join(value or "(none)" for value in rack.values)
        together = f"; all replicas under one {rack.tag}: {task_list(rack.together)}" if rack.together else ""
        sentences.append(f"{rack.tag} ({values}): {rack.spread} tasks with standbys are spread over it{together}")
    return sentences


def task_list(tasks: Collection[TaskId]) -> str:
    """Return the first dozen, and how many more."""
    return _listed([str(task) for task in sorted(tasks)])


def _listed(texts: Sequence[str]) -> str:
    shown = ", ".join(texts[:TASKS_SHOWN])
    return shown if len(texts) <= TASKS_SHOWN else f"{shown} and {len(texts) - TASKS_SHOWN:,} more"


def move_list(moves: Collection[Move], names: Mapping[UUID, str]) -> str:
    """Return ``0_1, 0_3 from a to b``; empty for no moves; for many, their number and the first few."""
    ways: dict[tuple[UUID | None, UUID], list[TaskId]] = defaultdict(list)
    for move in moves:
        ways[move.source, move.target].append(move.task)
    texts = [
        f"{task_list(tasks)} {f'from {names.get(old, str(old))} ' if old else ''}to {names[new]}"
        for (old, new), tasks in ways.items()
    ]
    if len(texts) <= WAYS_SHOWN:
        return "; ".join(texts)
    return f"{len(moves):,} tasks: {'; '.join(texts[:WAYS_SHOWN])}; and more in {len(texts) - WAYS_SHOWN:,} other ways"


def _due(left_ms: int) -> str:
    return f"due in {span(left_ms)}" if left_ms > 0 else "due"


def span(milliseconds: int) -> str:
    """Return a duration in its two largest units: ``3 min 5 s``."""
    seconds = max(0, round(milliseconds / 1000))
    for unit, size, smaller, rest in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= size:
            left = seconds % size // rest
            return f"{seconds // size} {unit} {left} {smaller}" if left else f"{seconds // size} {unit}"
    return f"{seconds} s"


def first(sentences: list[str], kind: str) -> list[str]:
    """Return the first few of many sentences of a kind."""
    more = len(sentences) - SENTENCES_SHOWN
    return sentences if more <= 0 else [*sentences[:SENTENCES_SHOWN], f"... and {more:,} more {kind}"]
