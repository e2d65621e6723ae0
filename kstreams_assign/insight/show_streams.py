"""A streams group (KIP-1071) to look at: a table of processes, its topology, then sentences.

Nothing is worked out here. Text that may have a name of the group or of its members goes through ``printable``.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kstreams_assign.insight.record_text import printable
from kstreams_assign.insight.show import COLD, QUIET, bullets
from kstreams_assign.observe.streams_reasons import listed, streams_reasons, unknown
from kstreams_assign.observe.streams_snapshot import SeenMember, StreamsSnapshot, StreamsTask, sources


def show_streams(snapshot: StreamsSnapshot, *, assumptions: bool = False, table_last: bool = False) -> RenderableType:
    """Return the picture of one moment. Without ``assumptions`` what is unknown is only counted."""
    table: list[RenderableType] = [_processes(snapshot)] if snapshot.processes else []
    sentences = [bullets(_topology(snapshot), QUIET), bullets(streams_reasons(snapshot), "")]
    if table_last:
        return Group(_headline(snapshot), *sentences, *_unknown(snapshot, assumptions), *table)
    return Group(_headline(snapshot), *table, *sentences, *_unknown(snapshot, assumptions))


def _unknown(snapshot: StreamsSnapshot, assumptions: bool) -> list[RenderableType]:
    lines = [f"{subject}: {why}" for subject, why in {**snapshot.gaps, **unknown(snapshot)}.items()]
    if not assumptions:
        return [Text(f"\nnot known: {len(lines)} facts: --assumptions lists them", QUIET)]
    return [Text("\nnot known, as the group does not report it:", QUIET), bullets(lines, QUIET)]


def _headline(snapshot: StreamsSnapshot) -> Text:
    group = snapshot.group
    facts = [
        Text(printable(group.group_id), "bold"),
        Text("streams protocol"),
        Text(printable(group.group_state)),
        Text(f"epoch {group.group_epoch}"),
        Text(f"assignment {group.assignment_epoch}"),
        Text(f"topology {group.topology.epoch if group.topology else '?'}"),
        Text(printable(f"assigned by the broker{f' ({group.assignor_name})' if group.assignor_name else ''}")),
    ]
    return Text(" · ").join(facts)


def _processes(snapshot: StreamsSnapshot) -> Table:
    """One row a member."""
    table = Table(box=box.ROUNDED, show_lines=True, header_style="bold")
    for title in ("process and member", "active", "standby", "still to come", "to give up"):
        table.add_column(title, overflow="fold")
    for process, members in snapshot.processes.items():
        for member in members:
            awaited, leaving = member.awaited, member.to_revoke
            table.add_row(
                _who(process, member),
                _tasks(member.owned.active),
                _tasks((*member.owned.standby, *member.owned.warmup)),
                _tasks((*awaited.active, *awaited.standby, *awaited.warmup), COLD),
                _tasks((*leaving.active, *leaving.standby, *leaving.warmup), COLD),
            )
    return table


def _who(process: str, member: SeenMember) -> Text:
    described = member.described
    text = Text(printable(process[:8]), "bold")
    text.append(f" epoch {described.member_epoch}", QUIET)
    if member.is_away:
        text.append(", away", COLD)
    endpoint = described.user_endpoint and str(described.user_endpoint)
    tags = ", ".join(f"{key}={value}" for key, value in described.client_tags.items())
    for line in (described.client_host.lstrip("/"), endpoint, tags):
        if line:
            text.append(f"\n{printable(line)}", QUIET)
    text.append(f"\n{printable(described.client_id)}")
    if described.instance_id is not None:
        text.append(f"\ninstance {printable(described.instance_id)}")
    return text


def _tasks(tasks: Iterable[StreamsTask], style: str = "") -> Text:
    return Text(printable(listed(tasks)), style)


def _topology(snapshot: StreamsSnapshot) -> list[str]:
    lines = []
    for sub in snapshot.subtopologies:
        size = snapshot.state_size(sub)
        logs = ", ".join(log.name for log in sub.state_changelog_topics)
        state = f"; state in {logs} ({'?' if size is None else f'{size:,}'} offsets)" if logs else "; no state"
        lines.append(f"subtopology {sub.subtopology_id} reads {', '.join(sources(sub)) or 'nothing'}{state}")
    if snapshot.settings:
        settings = (f"{name} = {value}" for name, value in sorted(snapshot.settings.items()))
        lines.append(f"the broker's settings of the group: {', '.join(settings)}")
    return lines
