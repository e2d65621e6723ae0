"""How evenly a generation's tasks lie on its threads, for each class of tasks that people look at.

What lives here: the rows of the table ``balance``. What must not: judgement of what is balanced (``assign.balance``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kstreams_assign.history.movements import subtopology_of
from kstreams_assign.history.seen import Generation


class Evenness(NamedTuple):
    """One row without its place."""

    scope: str
    name: str | None
    tasks: int
    least: int
    most: int
    skew: float


def evenness_of(seen: Generation) -> list[Evenness]:
    """The rows of a generation of a classic group."""
    threads = {process: len(members) for process, members in seen.processes.items()}
    return evenness(threads, seen.owners, seen.copies, _racks(seen))


def evenness(
    threads: Mapping[str, int],
    owners: Mapping[str, str],
    copies: Mapping[str, Sequence[str]],
    racks: Mapping[str, Sequence[str]],
) -> list[Evenness]:
    """Active tasks, standbys and both; active tasks by subtopology over all processes; a rack's over its processes.

    ``threads``: of each process; ``owners`` and ``copies``: task -> process or processes; ``racks``: of processes.
    """
    if not threads:
        return []
    active = Counter(owners.values())
    standby = Counter(process for holders in copies.values() for process in holders)
    by_subtopology: dict[str, Counter[str]] = {}
    for task, process in owners.items():
        by_subtopology.setdefault(subtopology_of(task), Counter())[process] += 1
    rack_rows = [
        _row("rack", rack, {process: threads[process] for process in inside}, active)
        for rack, inside in sorted(racks.items())
    ]
    subtopologies = [_row("subtopology", name, threads, held) for name, held in sorted(by_subtopology.items())]
    classes = (("active", active), ("standby", standby), ("all", active + standby))
    return [*(_row(scope, None, threads, held) for scope, held in classes), *subtopologies, *rack_rows]


def _row(scope: str, name: str | None, threads: Mapping[str, int], held: Mapping[str, int]) -> Evenness:
    loads = [(held.get(process, 0), count) for process, count in threads.items()]
    shares = [tasks / count for tasks, count in loads]
    least, most = min(loads, key=_share), max(loads, key=_share)
    total = sum(tasks for tasks, _ in loads)
    return Evenness(scope, name, total, -(-least[0] // least[1]), -(-most[0] // most[1]), max(shares) - min(shares))


def _share(load: tuple[int, int]) -> float:
    return load[0] / load[1]


def _racks(seen: Generation) -> dict[str, list[str]]:
    """``tag=value`` -> the processes that carry it."""
    racks: dict[str, list[str]] = {}
    for process, tag in _tags(seen):
        racks.setdefault(tag, []).append(process)
    return racks


def _tags(seen: Generation) -> Iterator[tuple[str, str]]:
    for process, members in seen.processes.items():
        tags: Iterable[tuple[str, str]] = (
            members[0].readable_report.client_tags.items() if members[0].readable_report else ()
        )
        for key, value in tags:
            yield process, f"{key}={value}"
