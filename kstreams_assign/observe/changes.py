"""Changes of a group: its processes, its settings, its assignor. Applied to a state at once.

Pure values. An alternative is one event: at the next rebalance all removed processes are absent and all new ones
present.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, Literal
from uuid import UUID

from kstreams_assign.assign import ASSIGNORS, AssignConfig
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import process_order
from kstreams_assign.observe.group_state import PACE, ConsumerState, GroupState, ProcessState, report_of

Place = Literal["first", "middle", "last"]
PLACES: tuple[Place, ...] = ("last", "middle", "first")
"""Where the random ids of new processes sort among the others: Java assigns tasks in that order."""

CONFIG_KEYS = tuple(setting.name for setting in fields(AssignConfig))

LEAST_ID, GREATEST_ID = -(2**127), 2**127 - 1
"""The range of process ids as Java orders them (``model.process_order``)."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """A change of a group. ``add`` and ``add_java`` count processes, of ``threads`` members each and without any state.

    ``replace``: processes that leave, each replaced by a process without state. ``settings``: fields of
    ``AssignConfig``, or of ``PACE``. ``assignor``: the leader's setting; in a group with Java members Java's assignor
    decides regardless.
    """

    add: int = 0
    add_java: int = 0
    threads: int = 1
    remove: tuple[UUID, ...] = ()
    replace: tuple[UUID, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    assignor: str | None = None

    def __post_init__(self) -> None:
        if min(self.add, self.add_java) < 0 or self.threads < 1:
            raise ConfigError("a change adds 0 or more processes, with 1 or more threads each")
        if self.assignor is not None and self.assignor not in ASSIGNORS:
            raise ConfigError(f"assignor {self.assignor!r}: must be one of {', '.join(ASSIGNORS)}")

    @property
    def newcomers(self) -> int:
        return self.add + self.add_java + len(self.replace)

    @property
    def changes_members(self) -> bool:
        return bool(self.newcomers or self.remove)

    @property
    def nothing(self) -> bool:
        return not (self.changes_members or self.settings or self.assignor)

    def text(self, names: Mapping[UUID, str] | None = None) -> str:
        """Return the change in words, without the assignor. ``names``: what to call each process."""
        known = names or {}
        counted = f" of {self.threads} threads" if self.threads > 1 else ""
        parts = [
            f"add {self.add}{counted}" if self.add else "",
            f"add {self.add_java} Java{counted}" if self.add_java else "",
            *(f"remove {known.get(process, process)}" for process in self.remove),
            *(f"replace {known.get(process, process)}" for process in self.replace),
            *(f"{key} = {_shown(value)}" for key, value in self.settings.items()),
        ]
        return ", ".join(filter(None, parts)) or "nothing changes"


def _shown(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


def changed(state: GroupState, alternative: Alternative, place: Place = "last") -> GroupState:
    """Return the group right before the rebalance that the change causes.

    Raises ``ConfigError`` for a process that is not in the group or is named twice, for a wrong value, and if no
    process would be left.
    """
    going, present = [*alternative.remove, *alternative.replace], sorted(state.processes, key=process_order)
    check_leaving(going, present)
    if unknown := alternative.settings.keys() - {*CONFIG_KEYS, *PACE}:
        raise ConfigError(f"{min(unknown)}: must be one of {', '.join([*CONFIG_KEYS, *PACE])}")
    settings = alternative.settings
    stay = {name: process for name, process in state.processes.items() if name not in going}
    come = _newcomers(state, alternative, new_ids(state.processes, alternative.newcomers, place))
    processes = {**stay, **{process.process_id: process for process in come}}
    if not processes:
        raise ConfigError("no process would be left in the group: remove fewer, or add some")
    return replace(
        state,
        processes=processes,
        leader=state.leader if state.leader in stay else _next_leader(stay or processes),
        config=replace(state.config, **{key: settings[key] for key in CONFIG_KEYS if key in settings}),
        assignor=alternative.assignor or state.assignor,
        **{key: settings[key] for key in PACE if key in settings},
    )


def check_leaving(leaving: Collection[UUID | str], present: Collection[UUID | str]) -> None:
    """Raise ``ConfigError`` for a process that is not in the group or is named twice."""
    if strangers := [process for process in leaving if process not in present]:
        raise ConfigError(f"process {strangers[0]} is not in the group: {', '.join(map(str, present))}")
    if len(set(leaving)) < len(leaving):
        raise ConfigError("a process is named twice to be removed or replaced")


def _newcomers(state: GroupState, alternative: Alternative, ids: Sequence[UUID]) -> list[ProcessState]:
    """Return processes without state. A replacement gets its predecessor's tags; added ones share the present tags.

    Both process exactly once as the predecessor does, or as any present process does.
    """
    there = [state.processes[name] for name in sorted(state.processes, key=process_order)]
    tags = [process.about.client_tags for process in there]
    exactly_once = any(process.exactly_once for process in there)
    added = [True] * alternative.add + [False] * alternative.add_java
    models = [(ours, exactly_once, tags[n % len(tags)], alternative.threads) for n, ours in enumerate(added)]
    replaced = (state.processes[name] for name in alternative.replace)
    models += [(each.ours, each.exactly_once, each.about.client_tags, len(each.consumers)) for each in replaced]
    balance_by = state.config.balance_by
    return [_newcomer(process_id, *model, balance_by) for process_id, model in zip(ids, models, strict=True)]


def _newcomer(
    process: UUID, ours: bool, exactly_once: bool, tags: Mapping[str, str], threads: int, balance_by: str
) -> ProcessState:
    about = report_of(process, ours=ours, tags=tags, balance_by=balance_by, exactly_once=exactly_once)
    return ProcessState(tuple(ConsumerState(f"{process}-{n}") for n in range(1, threads + 1)), about)


def new_ids(present: Iterable[UUID], count: int, place: Place) -> list[UUID]:
    """Return ``count`` unused adjacent process ids, as near to ``place`` in Java's order as there is room."""
    gaps = list(pairwise([LEAST_ID - 1, *sorted(map(_number, present)), GREATEST_ID + 1]))
    aim = {"first": 0, "middle": len(gaps) // 2, "last": len(gaps)}[place]
    near = sorted(enumerate(gaps), key=lambda gap: abs(gap[0] - aim))
    low, high = next((low, high) for _, (low, high) in near if high - low > count)
    return [_id(low + (high - low) * (number + 1) // (count + 1)) for number in range(count)]


def _number(process: UUID) -> int:
    most, least = process_order(process)
    return (most << 64) + least


def _id(number: int) -> UUID:
    """Return the process id at this place; the lower half is signed as well."""
    least = ((number + 2**63) % 2**64) - 2**63
    most = (number - least) >> 64
    return UUID(int=((most % 2**64) << 64) | (least % 2**64))


def _next_leader(processes: Mapping[UUID, ProcessState]) -> UUID:
    """Return a process as leader. The broker's choice is not known; members of one release decide alike."""
    return min(processes, key=lambda name: min(consumer.member_id for consumer in processes[name].consumers))
