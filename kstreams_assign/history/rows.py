"""The rows that one generation adds to the tables, apart from movements.

What lives here: values -> rows in the order of ``tables.COLUMNS``. What must not: bytes, memory, how causes are found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import repeat

from kstreams_assign.group.dialects import MemberReport
from kstreams_assign.history.balance_rows import evenness_of
from kstreams_assign.history.causes import Cause
from kstreams_assign.history.reading import task_text
from kstreams_assign.history.records import EndOffset
from kstreams_assign.history.seen import Generation, SeenMember
from kstreams_assign.history.tables import Tables, append_rows


def add_rebalance(
    tables: Tables, seen: Generation, cause: Cause, owner_changes: int | None, adopted: int | None
) -> None:
    """The generation itself."""
    row = (
        *seen.place,
        "stable" if seen.members else "empty",
        seen.metadata.protocol,
        seen.metadata.leader,
        seen.leader_process,
        len(seen.members),
        len(seen.processes),
        seen.trailer.assignor if seen.trailer else None,
        cause.cause,
        cause.confidence,
        cause.evidence,
        cause.joined,
        cause.gone,
        owner_changes,
        adopted,
        seen.probing,
        min(seen.asked_ms, default=None),
        None,  # no record says when it began
    )
    append_rows(tables, "rebalances", [row])


def add_members(tables: Tables, seen: Generation) -> None:
    append_rows(tables, "members", [_member(seen, member) for member in seen.members])


def _member(seen: Generation, member: SeenMember) -> tuple[object, ...]:
    report = member.readable_report
    trailer = report.trailer if report else None
    return (
        *seen.place,
        member.raw.member_id,
        member.raw.group_instance_id,
        member.raw.client_id,
        member.raw.client_host,
        member.process,
        *_versions(member),
        report.user_end_point if report else None,
        list(report.client_tags.items()) if report else None,
        None if report is None else trailer is not None,
        _int32(trailer.assignors) if trailer else None,
        trailer.settings_digest if trailer else None,
        None if report is None or report.task_lags is not None else _sums(report),
        member.common.error_code if member.common else None,
        member.unreadable,
    )


def _sums(report: MemberReport) -> list[tuple[str, int]]:
    """Task -> offset sum, as it stands in the bytes."""
    return [(task_text(task), total) for task, total in report.task_offset_sums.items()]


def _int32(numbers: Mapping[str, int]) -> list[tuple[str, int]]:
    """What the column can hold; a version beyond that is none."""
    return [(name, number) for name, number in numbers.items() if -(2**31) <= number < 2**31]


def _versions(member: SeenMember) -> tuple[int | None, int | None]:
    if member.report is None:
        return None, None
    used = member.report.version if isinstance(member.report, MemberReport) else member.report.used_version
    return used, member.report.latest_supported_version


def add_placements(tables: Tables, seen: Generation) -> None:
    """One row a copy, a column at a time: there are hundreds to a generation."""
    warmups = _warmups(seen)
    tasks: list[str] = []
    roles: list[str] = []
    processes: list[str | None] = []
    members: list[str] = []
    sums: list[int | None] = []
    for member in seen.members:
        held = [*member.active, *member.standby]
        reported = seen.offset_sums.get(member.process or "", {})
        tasks += held
        roles += repeat("active", len(member.active))
        roles += ["warmup" if (member.process, task) in warmups else "standby" for task in member.standby]
        processes += repeat(member.process, len(held))
        members += repeat(member.raw.member_id, len(held))
        sums += map(reported.get, held)
    table = tables["task_placements"]
    for name, value in seen.place.columns().items():
        table[name] += repeat(value, len(tasks))
    table["task"] += tasks
    table["subtopology"] += [int(task.rpartition("__")[2].partition("_")[0]) for task in tasks]
    table["role"] += roles
    table["warmup_known"] += repeat(seen.trailer is not None, len(tasks))
    table["process_id"] += processes
    table["member_id"] += members
    table["offset_sum"] += repeat(None, len(tasks)) if seen.dialect.tells_lags else sums


def _warmups(seen: Generation) -> set[tuple[str | None, str]]:
    """Process and task of each copy that a leader of ours calls a warm-up."""
    warmups = seen.trailer.warmups if seen.trailer else {}
    return {(str(process), str(task)) for process, tasks in warmups.items() for task in tasks}


def add_end_offsets(
    tables: Tables, seen: Generation, ends: Iterable[EndOffset], subtopologies: Mapping[str, str | None]
) -> None:
    rows = []
    for end in ends:
        subtopology = subtopologies[end.topic]
        task = None if subtopology is None else f"{subtopology}_{end.partition}"
        rows.append((*seen.place, task, end.topic, end.partition, end.end, end.begin, end.sampled_ms))
    append_rows(tables, "end_offsets", rows)


def add_balance(tables: Tables, seen: Generation) -> None:
    append_rows(tables, "balance", [(*seen.place, *row) for row in evenness_of(seen)])
