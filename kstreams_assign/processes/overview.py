"""The page that lists the processes. Pure: it is made from their statuses.

Every text is escaped, and the Content-Security-Policy allows no other style or script.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from kstreams_assign.page.frame import Html, markup, tag
from kstreams_assign.processes.supervision import State
from kstreams_assign.processes.views import ProcessView, SupervisorView
from kstreams_assign.status.page import filled_page

Json = Mapping[str, Any]

TITLES = {
    "live": ("Live", "Not alive"),
    "ready": ("Ready", "Not ready"),
    "scalable": ("May be scaled", "Do not scale now"),
}
HEADS = (
    "process",
    "state",
    "pid",
    "restarts",
    "generation",
    "active",
    "warm-up",
    "standby",
    "input lag",
    "records in",
)
UNKNOWN = "–"


def overview(view: SupervisorView, statuses: Mapping[int, Json], verdicts: Mapping[str, Json]) -> tuple[bytes, str]:
    """Return the page and its Content-Security-Policy; ``statuses``: the ``/status.json`` of those that answer."""
    application = next((str(status["application_id"]) for status in statuses.values()), "kstreams-assign")
    states = Counter(process.state.value for process in view.processes)
    summary = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    return filled_page(
        "processes",
        application=markup(application),
        summary=markup(f"processes: {summary}{'; they close' if view.ending else ''}"),
        verdicts=markup(*_verdicts(verdicts)),
        heads=markup(*(tag("th", head, scope="col", class_=_side(head)) for head in HEADS)),
        rows=markup(*(_row(process, statuses.get(process.number)) for process in view.processes)),
    )


def _verdicts(verdicts: Mapping[str, Json]) -> Iterator[Html]:
    for name, (yes, no) in TITLES.items():
        holds = verdicts[name][name]
        style = "verdict" if holds else "verdict dead" if name == "live" else "verdict no"
        yield tag("div", yes if holds else no, class_=style)
    reasons = dict.fromkeys(reason for verdict in verdicts.values() for reason in verdict["reasons"])
    if reasons:
        yield tag("ul", *(tag("li", reason) for reason in reasons), class_="reasons")


def _row(process: ProcessView, status: Json | None) -> Html:
    number = str(process.number)
    name = number if process.url is None else tag("a", number, href=f"processes/{number}/")
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
    texts = (name, _state(process, status), *map(_number, (process.pid, process.restarts, *facts)))
    return tag("tr", *(_cell(head, text) for head, text in zip(HEADS, texts, strict=True)))


def _cell(head: str, text: str) -> Html:
    """Return a cell with its head, which a narrow screen shows; that leaves out unknown values."""
    class_ = f"{_side(head)} blank" if text == UNKNOWN else _side(head)
    return tag("td", text, class_=class_, data_label=head)


def _side(head: str) -> str:
    return "wide" if head == "process" else "" if head == "state" else "number"


def _state(process: ProcessView, status: Json | None) -> str:
    if process.state is State.RESTING:
        return f"failed, starts again in {(process.restart_in_ms or 0) / 1000:.0f} s"
    return str(status["state"]) if status else process.state.value


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"
