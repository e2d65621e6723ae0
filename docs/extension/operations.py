"""What operators follow: events and metrics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from operator import attrgetter

from extension.tables import code, markdown, table
from kstreams_assign.events.base import BaseEvent
from kstreams_assign.reference import EventDescription, EventField, event_values, events
from kstreams_assign.status.metric_table import HISTORY_ROWS, METRICS, SUPERVISOR_ROWS, MetricRow

_COMMON = {field.name for field in fields(BaseEvent)}


def events_part() -> str:
    """Return a table of all events, a section for each, and the values that they hold."""
    described = sorted(events(), key=attrgetter("event"))
    index = table(("Event", "When"), [(f"[`{each.event}`](#{each.event})", markdown(each.when)) for each in described])
    common = _fields(field for field in described[0].fields if field.name in _COMMON)
    filled_in = "The worker fills them in. JSON also has `event`, the name of the event."
    parts = [index, f"## Fields of every event\n\n{filled_in}\n\n{common}"]
    parts += ["## Every event\n", *map(_event, described)]
    parts += ["## Values in events\n", *map(_value, event_values())]
    return "\n".join(parts)


def _event(described: EventDescription) -> str:
    own = [field for field in described.fields if field.name not in _COMMON]
    shown = _fields(own) if own else "It has no other fields.\n"
    return f"### `{described.event}`\n\n{markdown(described.when)}\n\n{_python_type(described)}\n\n{shown}"


def _python_type(described: EventDescription) -> str:
    return f"Python type: `{described.type}`; level `{described.level}`"


def _value(described: EventDescription) -> str:
    return f"### `{described.type}`\n\n{markdown(described.when)}\n\n{_fields(described.fields)}"


def _fields(fields: Iterable[EventField]) -> str:
    rows = [(code(field.name), code(field.type), markdown(field.description)) for field in fields]
    return table(("Field", "Type", "Meaning"), rows)


def metrics_part() -> str:
    """Return a section for each metric, Kafka's first."""
    kafkas = [row for row in METRICS.values() if row.name.startswith("kafka_")]
    ours = [row for row in METRICS.values() if not row.name.startswith("kafka_")]
    titles = (
        ("Metrics of Kafka Streams", kafkas),
        ("Metrics of kstreams_assign", ours),
        ("Metrics of a supervisor", SUPERVISOR_ROWS),
        ("Metrics of `history follow`", HISTORY_ROWS),
    )
    return "\n".join(f"## {title}\n\n" + "\n".join(map(_metric, rows)) for title, rows in titles)


def _metric(row: MetricRow) -> str:
    kind = f"{row.kind.value}, in {row.unit}" if row.unit else row.kind.value
    lines = [f"### `{row.name}`", "", row.help, "", f"- Kind: {kind}"]
    return "\n".join([*lines, *([f"- Labels: {', '.join(map(code, row.labels))}"] if row.labels else []), ""])
