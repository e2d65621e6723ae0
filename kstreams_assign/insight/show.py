"""A description to look at: a table of processes, then sentences, then assumptions.

Nothing is worked out here. Text that may have a name of the group or of its members goes through ``printable``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from uuid import UUID

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kstreams_assign.insight.record_text import printable
from kstreams_assign.model import NO_PROBE_MS, TaskId
from kstreams_assign.observe.decoded import DecodedProcess
from kstreams_assign.observe.describe import Description
from kstreams_assign.observe.lags import Stalled
from kstreams_assign.observe.reasons import first, process_names, reasons, span

CELL_TASKS = 24
NAME_WIDTH = len(str(UUID(int=0)))
"""Longer names are folded, so that the tasks keep room on 80 columns."""
CELL_WIDTH, PADDING = 6, 3
"""Room that a column has at least, and what it has beside: a border and a space on each side."""
WARM, COLD, QUIET = "green", "yellow", "dim"


def show(
    about: Description, slow: Collection[Stalled] = (), *, assumptions: bool = False, table_last: bool = False
) -> RenderableType:
    """Return the picture of one moment. Without ``assumptions`` it has only their number."""
    sentences = bullets(reasons(about, slow), "")
    if table_last and about.group.decoded.processes:
        return Group(_headline(about), sentences, *_assumptions(about, assumptions), _Processes(about))
    table = [_Processes(about)] if about.group.decoded.processes else []
    return Group(_headline(about), *table, sentences, *_assumptions(about, assumptions))


def _assumptions(about: Description, assumptions: bool) -> list[RenderableType]:
    lines = [f"{subject}: {why}" for subject, why in about.group.assumed.items()]
    if not lines:
        return []
    if not assumptions:
        number = "1 assumption" if len(lines) == 1 else f"{len(lines)} assumptions"
        return [Text(f"\n{number}: --assumptions lists {'it' if len(lines) == 1 else 'them'}", QUIET)]
    return [
        Text("\nassumed, as the group does not report it (--topology FILE and --set KEY=VALUE correct it):", QUIET),
        bullets(first(lines, "assumptions; --json has all"), QUIET),
    ]


def _headline(about: Description) -> Text:
    group = about.group
    snapshot, decoded = group.decoded.snapshot, group.decoded
    names = process_names(decoded.view.processes)
    leader = next(
        (names[process.process_id] for process in decoded.processes if _has(process, snapshot.leader)), snapshot.leader
    )
    balance = Text("balanced", WARM) if about.balanced else Text("not balanced", COLD)
    facts = [
        Text(printable(snapshot.group), "bold"),
        Text(printable(snapshot.state)),
        Text(f"generation {'?' if snapshot.generation is None else snapshot.generation}"),
        *([Text(f"for {span(snapshot.taken_ms - snapshot.assigned_ms)}")] if snapshot.assigned_ms else []),
    ]
    if decoded.processes:
        assignor = decoded.trailer.assignor if decoded.trailer else f"{group.choice.name} (assumed)"
        facts += [Text(printable(f"led by {leader or '?'}")), Text(printable(assignor)), balance]
    return Text(" · ").join(facts)


def _has(process: DecodedProcess, member_id: str | None) -> bool:
    return any(member.member_id == member_id for member in process.members)


@dataclass(frozen=True, slots=True)
class _Processes:
    """The table of processes. Where all columns have no room, names are folded first."""

    about: Description

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        yield _processes(self.about, options.max_width)


def _processes(about: Description, width: int) -> Table:
    """One row a process, with its members below its name; at most so wide."""
    decoded = about.group.decoded
    ours = decoded.trailer is not None
    caption = "(lag): where the changelogs end now, less what was reported at the last join"
    table = Table(box=box.ROUNDED, show_lines=True, header_style="bold", caption=caption, caption_justify="left")
    names = process_names(decoded.view.processes)
    people = [_who(process, names[process.process_id]) for process in decoded.processes]
    titles = ["active", "standby (lag)", "warm-up (lag)"] if ours else ["active", "standby or warm-up (lag)"]
    room = width - 1 - PADDING - len(titles) * (CELL_WIDTH + PADDING)
    longest = max(len(line) for text in people for line in text.plain.splitlines())
    name_width = min(NAME_WIDTH, longest, max(CELL_WIDTH, room))
    table.add_column("process and members", overflow="fold", width=name_width)
    for title in titles:
        table.add_column(title, overflow="fold")
    for process, who in zip(decoded.processes, people, strict=True):
        row: list[RenderableType] = [
            who,
            _tasks(about, process, process.active),
            _tasks(about, process, process.standby),
        ]
        table.add_row(*row, *([_tasks(about, process, process.warmup or ())] if ours else []))
    return table


def _who(process: DecodedProcess, name: str) -> Text:
    report = process.report
    text = Text(name, "bold")
    text.append(f" {'ours' if process.ours else 'not ours'}, version {report.version}", QUIET)
    hosts = sorted({member.described.client_host.lstrip("/") for member in process.members})
    rack = process.rack and f"rack {process.rack}"
    for line in (*hosts, report.user_end_point, rack, ", ".join(f"{k}={v}" for k, v in report.client_tags.items())):
        if line:
            text.append(f"\n{printable(line)}", QUIET)
    for line in _members(process):
        text.append(f"\n{printable(line)}")
    return text


def _members(process: DecodedProcess) -> list[str]:
    """Return client ids, with their tasks if there are several members, and which asks for the next rebalance."""
    lines = []
    for member in process.members:
        given, info = member.given, member.info
        line = _client(process, member.described.client_id)
        if len(process.members) > 1 and given:
            line += f": {len(given.active)} active, {len(given.standby | given.warmup)} copies"
        lines.append(line)
        if info and info.next_rebalance_ms != NO_PROBE_MS:
            lines.append("(to rejoin at once)" if info.next_rebalance_ms == 0 else "(asks for the probe)")
        if member.unreadable:
            lines.append("(cannot be read)")
    return [line for line in lines if line]


def _client(process: DecodedProcess, client_id: str) -> str:
    """Return the thread's part of a generated client id: its row names group and process already."""
    _, separator, thread = client_id.partition(str(process.process_id))
    return thread.lstrip("-").removesuffix("-consumer") if separator else client_id


def _tasks(about: Description, process: DecodedProcess, tasks: Iterable[TaskId]) -> Text:
    ordered = sorted(tasks)
    text = Text()
    for task in ordered[:CELL_TASKS]:
        text.append_text(_task(about, process.process_id, task))
        text.append("  ")
    if len(ordered) > CELL_TASKS:
        text.append(f"and {len(ordered) - CELL_TASKS:,} more", QUIET)
    return text


def _task(about: Description, process: UUID, task: TaskId) -> Text:
    copy = about.lags.get((process, task))
    if copy is None or (copy.lag in {0, None} and copy.ready):  # stateless, running, or nothing to say
        return Text(str(task))
    lag = "?" if copy.lag is None else f"{copy.lag:,}"
    return Text(f"{task}({lag})", WARM if copy.ready else COLD)


def bullets(lines: Iterable[str], style: str) -> RenderableType:
    """Return a list with a dash before each line."""
    table = Table.grid(padding=(0, 1))
    for line in lines:
        table.add_row(Text("-", style), Text(printable(line), style))
    return Padding(table, (0, 0, 0, 1))
