"""An answer as text, and as a page with a plot."""

from __future__ import annotations

import io
import sys
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from kstreams_assign.errors import ConfigError
from kstreams_assign.history.ask.answer import Answer
from kstreams_assign.history.ask.formats import Format, as_csv, as_json, write_parquet
from kstreams_assign.history.ask.questions import Question
from kstreams_assign.history.phrases import many
from kstreams_assign.page.file import write_text
from kstreams_assign.page.frame import Html, asset, page, table, tag

ROWS_MAX = 20
"""Rows that text and page show; the other formats have all."""

NAMES, WIDTH, LINE, VALUE = 370, 420, 20, 90
"""Of the plot, in pixels: the names, the longest bar, a row, the figure behind the bar."""

WIDE = 200
"""Columns of a text that goes to a file or a pipe."""


def write(answer: Answer, how: Format, file: Path | None) -> None:
    """Write to ``file``, or print.

    Raises ``ConfigError`` for a file that cannot be written, and for Parquet without one.
    """
    if how is Format.PARQUET:
        if file is None:
            raise ConfigError("--format parquet: name the file to write with --file")
        write_parquet(answer, file)
    elif file is not None:
        write_text("--file", file, _as_text(answer, how))
    elif how is Format.TEXT:
        console = Console(width=None if sys.stdout.isatty() else WIDE)
        console.print(picture(answer, console))
    else:
        print(_as_text(answer, how), end="")


def _as_text(answer: Answer, how: Format) -> str:
    if how is not Format.TEXT:
        return as_json(answer) if how is Format.JSON else as_csv(answer)
    text = io.StringIO()
    console = Console(file=text, width=WIDE)
    console.print(picture(answer, console))
    return text.getvalue()


def picture(answer: Answer, console: Console) -> RenderableType:
    """The sentence and the first rows: in columns, if all of them have room."""
    rows = answer.rows
    parts: list[RenderableType] = [
        Text(answer.question.text, "bold"),
        Text(answer.sentence),
        Text(str(answer.span), "dim"),
    ]
    if rows:
        columns = _columns(answer)
        has_room = console.measure(columns, options=console.options.update(width=WIDE)).maximum <= console.width
        parts += [columns] if has_room else ["", *(_described(answer, row) for row in rows[:ROWS_MAX])]
    if len(rows) > ROWS_MAX:
        parts.append(Text(f"and {len(rows) - ROWS_MAX:,} more: --format csv has all", "dim"))
    return Group(*parts)


def _columns(answer: Answer) -> Table:
    columns, rows = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False), answer.rows[:ROWS_MAX]
    for name in answer.table.column_names:
        longest = max(len(_cell(row[name])) for row in rows)
        heading = name if len(name) <= longest else name.replace("_", "_\n")
        columns.add_column(heading, justify="right" if _is_number(answer, name) else "left")
    for row in rows:
        columns.add_row(*(Text(_cell(value)) for value in row.values()))  # no markup: a group may be called [x]
    return columns


def _described(answer: Answer, row: Mapping[str, Any]) -> Text:
    """A row in words: what the plot calls it, and everything else that is known."""
    names = answer.question.bars.names
    known = {name: _cell(value) for name, value in row.items() if value is not None}
    named = " ".join(known.pop(name) for name in names if name in known)
    return Text.assemble((named, "bold"), ": ", ", ".join(f"{name} {text}" for name, text in known.items()))


def draw(answer: Answer, html: Path) -> None:
    """Write a page: the sentence, a plot, the rows, the SQL. Raises ``ConfigError`` if it cannot be written."""
    question, rows = answer.question, answer.rows[:ROWS_MAX]
    names = answer.table.column_names
    numbers = {at for at, name in enumerate(names) if _is_number(answer, name)}
    more = len(answer.rows) - len(rows)
    content = [
        tag("h1", question.text),
        tag("p", tag("strong", answer.sentence)),
        tag("p", str(answer.span), class_="quiet"),
    ]
    if rows:
        cells = [[_cell(value) for value in row.values()] for row in rows]
        caption = many(len(answer.rows), "row") + (f", of which {len(rows)} are shown" if more else "")
        content += [
            tag("section", tag("figure", tag("figcaption", question.bars.title), bars(answer))),
            tag("section", table(names, cells, caption, numbers, class_="stacked")),
        ]
    content.append(tag("details", tag("summary", "The SQL behind it"), tag("pre", question.query)))
    write_text("--html", html, page(question.text, *content, styles=(asset("ask.css", __package__),)))


def bars(answer: Answer) -> Html:
    """A bar a row, as long as the column that the question names; without a value there is no bar."""
    drawn, rows = answer.question.bars, answer.rows[:ROWS_MAX]
    most = max((row[drawn.length] or 0 for row in rows), default=0) or 1
    lines = []
    for at, row in enumerate(rows):
        y, value = at * LINE, row[drawn.length]
        name = " ".join(_cell(row[column]) for column in drawn.names if row[column] is not None)
        width = (value or 0) / most * WIDTH
        lines += [
            tag("text", _shortened(name), tag("title", name), x=f"{NAMES - 8}", y=f"{y + 14}", text_anchor="end"),
            tag("rect", x=f"{NAMES}", y=f"{y + 3}", width=f"{width:.1f}", height=f"{LINE - 6}"),
            tag("text", _cell(value) or "not known", x=f"{NAMES + width + 6:.1f}", y=f"{y + 14}", class_="quiet"),
        ]
    size = f"0 0 {NAMES + WIDTH + VALUE} {LINE * len(rows)}"
    return tag("svg", *lines, viewBox=size, role="img", aria_label=drawn.title, class_="bars")


def _shortened(name: str) -> str:
    """As much as there is room for: the end tells processes apart."""
    return name if len(name) <= 48 else f"…{name[-47:]}"


def _is_number(answer: Answer, name: str) -> bool:
    kind = answer.table.schema.field(name).type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}"
        case float():
            return f"{value:,.3f}".rstrip("0").rstrip(".")
        case int():
            return f"{value:,}"
        case _:
            return str(value)


def listed(questions: Collection[Question]) -> str:
    """The questions, a line each: name, text, days."""
    width = max(len(each.name) for each in questions)
    return "\n".join(f"{each.name:<{width}}  {each.text} (the last {many(each.days, 'day')})" for each in questions)
