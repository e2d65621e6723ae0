"""The page that lists the processes. Pure: it is made from their statuses, and has no script.

Every text is escaped, and the Content-Security-Policy allows no other style.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from kstreams_assign.processes.supervision import State
from kstreams_assign.processes.views import ProcessView, SupervisorView
from kstreams_assign.status.page import filled_page

Json = Mapping[str, Any]

TITLES = {
    "live": ("Live", "Not alive"),
    "ready": ("Ready", "Not ready"),
    "scalable": ("May be scaled", "Do not scale now"),
}


def overview(view: SupervisorView, statuses: Mapping[int, Json], verdicts: Mapping[str, Json]) -> tuple[bytes, str]:
    """Return the page and its Content-Security-Policy; ``statuses``: the ``/status.json`` of those that answer."""
    application = next((str(status["application_id"]) for status in statuses.values()), "kstreams-assign")
    states = Counter(process.state.value for process in view.processes)
    summary = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    return filled_page(
        "processes.html",
        application=escape(application),
        summary=f"processes: {summary}{'; they close' if view.ending else ''}",
        verdicts="".join(_verdicts(verdicts)),
        rows="".join(_row(process, statuses.get(process.number)) for process in view.processes),
    )


def _verdicts(verdicts: Mapping[str, Json]) -> Iterator[str]:
    for name, (yes, no) in TITLES.items():
        holds = verdicts[name][name]
        style = "verdict" if holds else "verdict dead" if name == "live" else "verdict no"
        yield f'<div class="{style}">{yes if holds else no}</div>'
    reasons = dict.fromkeys(reason for verdict in verdicts.values() for reason in verdict["reasons"])
    if reasons:
        yield f'<ul class="reasons">{"".join(f"<li>{escape(reason)}</li>" for reason in reasons)}</ul>'


def _row(process: ProcessView, status: Json | None) -> str:
    number = str(process.number)
    name = number if process.url is None else f'<a href="processes/{number}/">{number}</a>'
    roles = Counter(task["role"] for task in status["tasks"]) if status else Counter[str]()
    facts = (
        [
            status["generation"],
            *(roles[role] for role in ("active", "warmup", "standby")),
            sum(status["input_lags"].values()),
            status["records_total"],
        ]
        if status
        else [None] * 6
    )
    cells = "".join(f'<td class="number">{_number(fact)}</td>' for fact in (process.pid, process.restarts, *facts))
    return f'<tr><td class="name">{name}</td><td>{escape(_state(process, status))}</td>{cells}</tr>'


def _state(process: ProcessView, status: Json | None) -> str:
    if process.state is State.RESTING:
        return f"failed, starts again in {(process.restart_in_ms or 0) / 1000:.0f} s"
    return str(status["state"]) if status else process.state.value


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"
