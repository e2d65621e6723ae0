"""From a folder of tables to a page: read, build, draw, write; and a summary for the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kstreams_assign.errors import ConfigError
from kstreams_assign.history.report import sections, words
from kstreams_assign.history.report.build import GroupRows, build_group
from kstreams_assign.history.report.fleet import build_fleet
from kstreams_assign.history.report.payload import fleet_payload, group_payload
from kstreams_assign.history.report.rows import (
    Balance,
    Count,
    EndOffset,
    Member,
    Movement,
    Placement,
    Quarantined,
    Rebalance,
)
from kstreams_assign.history.report.view import FleetView, GroupView, InShort, Span
from kstreams_assign.history.times import DAY_MS
from kstreams_assign.page import frame
from kstreams_assign.page.file import write_text

if TYPE_CHECKING:
    from kstreams_assign.history.layout import Layout
    from kstreams_assign.history.store import AsOf
    from kstreams_assign.history.tables_reader import TablesReader

SCRIPTS = ("words.js", "canvas.js", "timeline.js", "charts.js", "report.js")
"""In the order that they need each other."""

Say = Callable[[str], None]
"""Takes a line of progress."""

SECTIONS_MAX = 100
"""Groups with a section of their own. Each costs some 10 to 500 kB of page; the overview names all groups."""

WEEK_DAYS = 7

GROUPS_AT_ONCE = 20
"""How many groups' placements are in memory at a time."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The page in short. ``unreadable`` counts quarantined records."""

    html: Path
    size: int
    groups: int
    sections: int
    rebalances: int
    owner_changes: int
    never_finish_probing: tuple[str, ...]
    flapping_tasks: int
    unreadable: int
    answers: tuple[str, ...]
    headlines: tuple[str, ...]


def report(
    tables: Path | Layout,
    html: Path,
    *,
    group: str | None = None,
    days: int | None = None,
    as_of: AsOf = None,
    say: Say = lambda _line: None,
) -> Summary:
    """Read the tables of a folder or a layout, and write one page to ``html``.

    ``group``: only this group. ``days``: the last days before the newest generation. ``as_of``: the tables as they were
    at this version of ``rebalances``, or at this time. ``say`` gets lines of progress. Raises ``ConfigError`` for a
    folder without tables, a version or time that they do not have, a group that is in none of them, files that cannot
    be read, and a page that cannot be written. Tables without rows give a page that says so.
    """
    from kstreams_assign.history.layout import layout_of
    from kstreams_assign.history.tables_reader import TablesReader

    if days is not None and days < 1:
        raise ConfigError(f"--days {days} is not allowed; give a whole number of days from 1 on")
    layout = layout_of(tables)
    reader = TablesReader(layout, as_of)
    say(f"reading the tables of {layout.name}{'' if as_of is None else f' as of {as_of}'}")
    fleet, since_ms, rebalances = _fleet(reader, group, days)
    shown = [line.group for line in fleet.lines[:SECTIONS_MAX]]
    views = _views(reader, shown, rebalances, fleet.span, since_ms, say)
    answers = in_short(reader, layout, days, group)
    text = draw(fleet, shown, views, answers)
    write_text("--html", html, text)
    return _summary(html, fleet, len(shown), answers)


def _fleet(
    reader: TablesReader, group: str | None, days: int | None
) -> tuple[FleetView, int | None, dict[str, list[Rebalance]]]:
    """The overview, from when on rows count, and the generations by group."""
    from kstreams_assign.history.report.read import rows, split
    from kstreams_assign.history.tables_reader import no_group

    groups = None if group is None else {group}
    rebalances = list(rows(reader, Rebalance, groups))
    if group is not None and not rebalances:
        raise no_group(group, {row.group for row in rows(reader, Rebalance)})
    since_ms = None
    if days is not None and rebalances:
        since_ms = max(0, max(row.time_ms for row in rebalances) - days * DAY_MS)
        rebalances = [row for row in rebalances if row.time_ms >= since_ms]
    fleet = build_fleet(
        rebalances,
        rows(reader, Movement, groups, since_ms),
        rows(reader, Quarantined, None, since_ms),
        rows(reader, Count, None, since_ms),
    )
    return fleet, since_ms, split(rebalances)


def _views(
    reader: TablesReader,
    shown: Sequence[str],
    rebalances: dict[str, list[Rebalance]],
    span: Span,
    since_ms: int | None,
    say: Say,
) -> Iterator[GroupView]:
    """The sections, a few groups at a time."""
    from kstreams_assign.history.report.read import rows, split

    for start in range(0, len(shown), GROUPS_AT_ONCE):
        some = shown[start : start + GROUPS_AT_ONCE]
        say(f"drawing groups {start + 1} to {start + len(some)} of {len(shown)}")
        members, placements, ends, movements, balance = (
            split(rows(reader, kind, some, since_ms)) for kind in (Member, Placement, EndOffset, Movement, Balance)
        )
        for group in some:
            yield build_group(
                GroupRows(
                    rebalances[group],
                    members.get(group, ()),
                    placements.get(group, ()),
                    ends.get(group, ()),
                    movements.get(group, ()),
                    balance.get(group, ()),
                ),
                span,
            )


def in_short(reader: TablesReader, layout: Layout, days: int | None, group: str | None) -> InShort:
    """Answer the questions of ``history ask`` that SQL alone answers, about the same days; None: the last week."""
    from kstreams_assign.history.ask.answer import Asked, answer_each
    from kstreams_assign.history.ask.questions import BY_SQL

    answers = answer_each(Asked(layout, BY_SQL[0], days or WEEK_DAYS, group=group), BY_SQL, reader)
    return InShort(str(answers[0].span), tuple(each.sentence for each in answers))


def draw(fleet: FleetView, shown: Sequence[str], views: Iterator[GroupView], answers: InShort) -> str:
    """The page."""
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

    places = {group: index for index, group in enumerate(shown)}
    data = [frame.data_block(f"group-{index}", group_payload(view)) for index, view in enumerate(views)]
    data.append(frame.data_block("fleet", fleet_payload(fleet)))
    styles = (frame.asset("report.css", __package__),)
    if not fleet.lines:
        empty = (sections.heading(fleet), sections.nothing(fleet), sections.unread(fleet))
        return frame.page("Rebalance history", *empty, styles=styles)
    content = (
        sections.heading(fleet),
        sections.in_short(answers),
        sections.overview(fleet, places),
        sections.stage(list(shown)),
        sections.unread(fleet),
    )
    own = tuple(frame.asset(name, __package__) for name in SCRIPTS)
    return frame.page("Rebalance history", *content, styles=styles, scripts=(get_plotlyjs(), *own), data=data)


def _summary(html: Path, fleet: FleetView, shown: int, answers: InShort) -> Summary:
    return Summary(
        html=html,
        size=html.stat().st_size,
        groups=len(fleet.lines),
        sections=shown,
        rebalances=sum(line.rebalances for line in fleet.lines),
        owner_changes=sum(line.owner_changes for line in fleet.lines),
        never_finish_probing=tuple(line.group for line in fleet.lines if line.probing and line.probing.never_finishes),
        flapping_tasks=sum(len(line.flapping) for line in fleet.lines),
        unreadable=sum(damage.records for damage in fleet.damage),
        answers=answers.sentences,
        headlines=tuple(headline.text for headline in words.headlines(fleet)),
    )
