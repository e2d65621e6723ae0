"""The HTML page of ``simulate policies``: words, plots and timelines. Measuring does not belong here (``tables``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kstreams_assign.page import frame
from kstreams_assign.page.file import write_text
from kstreams_assign.page.frame import Html, markup, tag
from kstreams_assign.sim.page.plots import plot
from kstreams_assign.sim.page.timeline import timeline
from kstreams_assign.sim.policies.policy import Policy
from kstreams_assign.sim.tables.compare import Column, heading
from kstreams_assign.sim.tables.measure import Measured
from kstreams_assign.sim.tables.reasons import reasons
from kstreams_assign.sim.tables.situations import GROUP
from kstreams_assign.sim.tables.words import EVENNESS, PROPOSAL, RULE, UNEVEN, WORDS

LONGEST_MS = 180_000
"""Of a timeline; longer ones are cut at its edge."""
TITLE = "Costs of rebalance policies"
EXPECTED = "Small: the expected word, if it differs; point at it for the reason."
HOW_TO_READ = (
    "A row is a task, a colour a process. Red: the task is not processed. The thin line below a bar is a replica that "
    "a process keeps or restores (solid if the task waits for it). Marks above are rebalances; the vertical line is "
    "where the group comes to rest."
)


def write(html: Path, chosen: Sequence[Policy], columns: Sequence[Column]) -> None:
    """Write the page. Raises ``ConfigError`` if the file cannot be written."""
    write_text("--html", html, draw(chosen, columns))


def draw(chosen: Sequence[Policy], columns: Sequence[Column]) -> str:
    """Return the whole document."""
    titles = {policy.name: policy.title for policy in chosen}
    expected = any(column.has_expected for column in columns)
    situations = list(dict.fromkeys(column.situation for column in columns))
    content = [
        tag("h1", TITLE),
        tag("p", _group(), class_="quiet"),
        _policies(chosen),
        tag(
            "section",
            tag("h2", "Summary"),
            *([tag("p", EXPECTED, class_="note quiet")] if expected else []),
            _words(columns, titles),
            *(tag("p", text, class_="note quiet") for text in (RULE, PROPOSAL if expected else EVENNESS)),
        ),
        tag("p", HOW_TO_READ, *_legend(), class_="note"),
        *(_situation([c for c in columns if c.situation == situation], titles) for situation in situations),
    ]
    return frame.page(TITLE, *content, styles=(frame.asset("policies.css", __package__),))


def _group() -> str:
    return (
        f"{GROUP.partitions} tasks of {GROUP.first_records:,} records; {GROUP.processes} processes, each restores "
        f"{GROUP.restored_per_s:,} records per second. Time is simulated; leader, members, assignors and bytes are "
        "real."
    )


def _legend() -> list[Html]:
    return [tag("span", f"P{slot}", class_=f"process b{slot}") for slot in range(GROUP.processes)]


def _policies(chosen: Sequence[Policy]) -> Html:
    items = [markup(tag("dt", policy.title), tag("dd", f"{policy.taken}.")) for policy in chosen]
    return tag("section", tag("h2", "The policies"), tag("dl", *items, class_="policies"))


def _words(columns: Sequence[Column], titles: dict[str, str]) -> Html:
    """Return the table of words, policies by situations; an expected word that differs is below, with a tooltip."""
    heads = [tag("th", heading(column), scope="col") for column in columns]
    rows = [
        tag("tr", tag("th", title, scope="row"), *(_word(column, name) for column in columns))
        for name, title in titles.items()
    ]
    whole = tag("table", tag("thead", tag("tr", tag("th", ""), *heads)), tag("tbody", *rows), class_="words")
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label="Words")


def _word(column: Column, name: str) -> Html:
    pairs = zip(column.measured, column.words, strict=True)
    costs, ours = next((costs, ours) for costs, ours in pairs if costs.policy == name)
    why = dict(reasons(column.situation.name, column.standbys)).get(name)
    below = tag("small", f"expected {column.expected_word(costs)}") if name in column.differing else ""
    kind = "uneven" if ours == UNEVEN else f"w{WORDS.index(ours)}"
    return tag("td", ours, below, class_=kind, title=why if below else None)


def _situation(columns: Sequence[Column], titles: dict[str, str]) -> Html:
    first = columns[0].situation
    longest = max(int(costs.settled_s * 1_000) for column in columns for costs in column.measured)
    until_ms = min(LONGEST_MS, longest + 2_000)
    sides = [
        tag(
            "div",
            tag("h3", heading(column)),
            plot(column, titles),
            *(_lane(costs, titles[costs.policy], until_ms) for costs in column.measured),
            tag("p", f"0 to {until_ms / 1_000:.0f} s", class_="axis quiet"),
            class_="side",
        )
        for column in columns
    ]
    return tag(
        "section",
        tag("h2", first.title),
        tag("p", f"{first.description}.", class_="quiet"),
        tag("div", *sides, class_="sides"),
    )


def _lane(measured: Measured, title: str, until_ms: int) -> Html:
    more = "" if measured.settled_s * 1_000 <= until_ms else f", at rest only after {measured.settled_s:.0f} s"
    text = f"{measured.downtime_s:.0f} task-s down, {measured.rebalances} rebalances, {measured.moves} moves{more}"
    return tag(
        "figure",
        tag("figcaption", title, " ", tag("span", text, class_="quiet")),
        timeline(measured, GROUP.partitions, until_ms),
    )
