"""The page as a whole: words, plots, timelines. What is shown is measured elsewhere (``tables``)."""

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
"""Of a timeline: who takes longer goes on beyond its edge."""
TITLE = "What policies for rebalances cost"
EXPECTED = "Small: the expected word, where ours is another; why is told when the pointer rests on it."
HOW_TO_READ = (
    "A row is a task and a colour a process. Red: nobody works on the task. The thin line below a bar is a copy that a process keeps, or makes "
    "(full where a task waits for it). Marks above are rebalances; the upright line is where the group comes to rest."
)


def write(html: Path, chosen: Sequence[Policy], columns: Sequence[Column]) -> None:
    """Raises ``ConfigError`` where the file cannot be written."""
    write_text("--html", html, draw(chosen, columns))


def draw(chosen: Sequence[Policy], columns: Sequence[Column]) -> str:
    """The whole document."""
    titles = {policy.name: policy.title for policy in chosen}
    expected = any(column.has_expected for column in columns)
    situations = list(dict.fromkeys(column.situation for column in columns))
    content = [
        tag("h1", TITLE),
        tag("p", _group(), class_="quiet"),
        _policies(chosen),
        tag(
            "section",
            tag("h2", "In a word"),
            *([tag("p", EXPECTED, class_="note quiet")] if expected else []),
            _words(columns, titles),
            *(tag("p", told, class_="note quiet") for told in (RULE, PROPOSAL if expected else EVENNESS)),
        ),
        tag("p", HOW_TO_READ, *_legend(), class_="note"),
        *(_situation([c for c in columns if c.situation == one], titles) for one in situations),
    ]
    return frame.page(TITLE, *content, styles=(frame.asset("policies.css", __package__),))


def _group() -> str:
    return (
        f"{GROUP.partitions} tasks of {GROUP.first_records:,} records, {GROUP.processes} processes that restore {GROUP.restored_per_s:,} a second "
        "each, in simulated time; the leader, members, assignors and bytes are the real ones."
    )


def _legend() -> list[Html]:
    return [tag("span", f"P{slot}", class_=f"process b{slot}") for slot in range(GROUP.processes)]


def _policies(chosen: Sequence[Policy]) -> Html:
    said = [markup(tag("dt", policy.title), tag("dd", f"{policy.taken}.")) for policy in chosen]
    return tag("section", tag("h2", "The policies"), tag("dl", *said, class_="policies"))


def _words(columns: Sequence[Column], titles: dict[str, str]) -> Html:
    """A row a policy, a column a situation; where the expected word is another it stands below, and why in its hover."""
    heads = [tag("th", heading(column), scope="col") for column in columns]
    rows = [
        tag("tr", tag("th", title, scope="row"), *(_word(column, name) for column in columns))
        for name, title in titles.items()
    ]
    whole = tag("table", tag("thead", tag("tr", tag("th", ""), *heads)), tag("tbody", *rows), class_="words")
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label="Words")


def _word(column: Column, name: str) -> Html:
    one, ours = next((one, ours) for one, ours in zip(column.measured, column.words, strict=True) if one.policy == name)
    why = dict(reasons(column.situation.name, column.standbys)).get(name)
    below = tag("small", f"expected {column.expected_word(one)}") if name in column.differing else ""
    kind = "uneven" if ours == UNEVEN else f"w{WORDS.index(ours)}"
    return tag("td", ours, below, class_=kind, title=why if below else None)


def _situation(columns: Sequence[Column], titles: dict[str, str]) -> Html:
    first = columns[0].situation
    longest = max(int(one.settled_s * 1_000) for column in columns for one in column.measured)
    until_ms = min(LONGEST_MS, longest + 2_000)
    sides = [
        tag(
            "div",
            tag("h3", heading(column)),
            plot(column, titles),
            *(_lane(one, titles[one.policy], until_ms) for one in column.measured),
            tag("p", f"0 to {until_ms / 1_000:.0f} s", class_="axis quiet"),
            class_="side",
        )
        for column in columns
    ]
    return tag(
        "section",
        tag("h2", first.title),
        tag("p", f"{first.told}.", class_="quiet"),
        tag("div", *sides, class_="sides"),
    )


def _lane(one: Measured, title: str, until_ms: int) -> Html:
    more = "" if one.settled_s * 1_000 <= until_ms else f", at rest only after {one.settled_s:.0f} s"
    told = f"{one.downtime_s:.0f} task-s down, {one.rebalances} rebalances, {one.moves} moves{more}"
    return tag(
        "figure",
        tag("figcaption", title, " ", tag("span", told, class_="quiet")),
        timeline(one, GROUP.partitions, until_ms),
    )
