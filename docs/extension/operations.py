"""What operators follow: events and metrics."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, get_args, get_type_hints

import kstreams_assign.events
from extension.tables import code, markdown, table
from kstreams_assign.events import Event
from kstreams_assign.events.base import BaseEvent
from kstreams_assign.worker.http.metric_table import METRICS, MetricRow


class _Field(NamedTuple):
    name: str
    type: str
    description: str


def events_part() -> str:
    """Return a table of all events, a section for each, and the values that they hold."""
    events = {_event_name(kind): kind for kind in get_args(Event)}
    index = table(("Event", "When"), [(f"[`{name}`](#{name})", _when(kind)) for name, kind in sorted(events.items())])
    common = table(("Field", "Type", "Meaning"), map(_row, _fields(BaseEvent)))
    parts = [index, "## Fields of every event\n", f"Beside `event`, the name of the event:\n\n{common}"]
    parts += ["## Every event\n", *(_event(name, kind) for name, kind in sorted(events.items()))]
    parts += ["## Values in events\n", *map(_value, _value_kinds(list(events.values())))]
    return "\n".join(parts)


def _event_name(kind: type) -> str:
    (name,) = get_args(get_type_hints(kind)["event"])
    return str(name)


def _when(kind: type) -> str:
    return markdown(inspect.getdoc(kind) or "")


def _event(name: str, kind: type) -> str:
    fields = [field for field in _all_fields(kind) if field.name not in {"event", "time_ms", "process_id"}]
    shown = table(("Field", "Type", "Meaning"), map(_row, fields)) if fields else "It has no other fields.\n"
    return f"### `{name}`\n\n{_when(kind)}\n\nPython type: `{kind.__name__}`\n\n{shown}"


def _value_kinds(events: list[type]) -> Iterator[type]:
    """Yield the types of tables within events."""
    for name in kstreams_assign.events.__all__:
        kind = getattr(kstreams_assign.events, name)
        if isinstance(kind, type) and hasattr(kind, "__total__") and kind not in {*events, BaseEvent}:
            yield kind


def _value(kind: type) -> str:
    return f"### `{kind.__name__}`\n\n{_when(kind)}\n\n" + table(("Field", "Type", "Meaning"), map(_row, _fields(kind)))


def _row(field: _Field) -> tuple[str, str, str]:
    return code(field.name), code(field.type), markdown(field.description)


def _all_fields(kind: type) -> list[_Field]:
    bases = [base for base in getattr(kind, "__orig_bases__", ()) if hasattr(base, "__total__")]
    inherited = [field for base in bases for field in _all_fields(base)]
    return list({field.name: field for field in [*inherited, *_fields(kind)]}.values())


def _fields(kind: type) -> list[_Field]:
    """Return the fields that the class body declares, each with the string below it."""
    (tree,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(tree, ast.ClassDef)
    return [
        _Field(statement.target.id, ast.unparse(statement.annotation), _text(below))
        for statement, below in pairwise([*tree.body, ast.Pass()])
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    ]


def _text(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return str(statement.value.value)
    return ""


def metrics_part() -> str:
    """Return a section for each metric, Kafka's first."""
    kafkas = [row for row in METRICS.values() if row.name.startswith("kafka_")]
    ours = [row for row in METRICS.values() if not row.name.startswith("kafka_")]
    titles = (("Metrics of Kafka Streams", kafkas), ("Metrics of kstreams_assign", ours))
    return "\n".join(f"## {title}\n\n" + "\n".join(map(_metric, rows)) for title, rows in titles)


def _metric(row: MetricRow) -> str:
    kind = f"{row.kind.value}, in {row.unit}" if row.unit else row.kind.value
    lines = [f"### `{row.name}`", "", row.help, "", f"- Kind: {kind}"]
    return "\n".join([*lines, *([f"- Labels: {', '.join(map(code, row.labels))}"] if row.labels else []), ""])
