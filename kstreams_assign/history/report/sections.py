"""The page's markup: overview, the group's empty stage that scripts fill, and what could not be read."""

from __future__ import annotations

from datetime import UTC, datetime

from kstreams_assign.history.phrases import many
from kstreams_assign.history.report import words
from kstreams_assign.history.report.view import (
    FLAP_MOVES,
    LONG_PROBING_MS,
    STUCK_PROBES,
    Damage,
    FleetView,
    GroupLine,
    InShort,
    Probing,
    Span,
)
from kstreams_assign.history.times import duration
from kstreams_assign.page.frame import Html, markup, table, tag

DAMAGE_SHOWN = 100
NAMED_IN_CARD = 3

HEADS = (
    # text, what it means, whether it is a number
    ("group", "the group's id; opens its section", False),
    ("when", "when it rebalanced, over the whole time of this page; taller is more", False),
    ("rebalances", "completed generations", True),
    ("an hour", "rebalances an hour of the page's time, or of one hour if that is shorter", True),
    ("owner changes", "tasks that changed process while the old one was there", True),
    ("adopted", "tasks whose former process was lost", True),
    ("cold", "moves to a process that is known to have had no warm copy", True),
    ("flapping tasks", f"moved {FLAP_MOVES} times or more within an hour", True),
    ("worst gap", "from the old owner's last commit to the new one's first", True),
    ("probing", "as the history ends: for how long already", True),
    ("members", "of the last generation", True),
)


def moment(time_ms: int) -> str:
    """``2026-11-21 12:30:05``, UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def heading(fleet: FleetView) -> Html:
    """What this page is about."""
    return tag(
        "header",
        tag("h1", "Rebalance history"),
        tag("p", _span_words(fleet.span) if fleet.lines else "No generation in these tables", class_="quiet"),
    )


def _span_words(span: Span) -> str:
    return f"{moment(span.start_ms)} to {moment(span.end_ms)} UTC, {duration(span.end_ms - span.start_ms)}"


def nothing(fleet: FleetView) -> Html:
    """The page of tables without a generation: said, not an empty plot."""
    records = sum(count for _, count in fleet.counts)
    seen = f"{many(records, 'record')} were read" if records else "No record was read either"
    return tag(
        "section",
        tag("h2", "No rebalance of any Kafka Streams group stands in these tables"),
        tag(
            "p",
            f"{seen}. Either no such group rebalanced while the history was written, or the chosen time was too short.",
        ),
        class_="empty",
    )


def in_short(answers: InShort) -> Html:
    """What happened, in a sentence for each question that one asks after an incident."""
    source = "kstreams-assign history ask has the rows behind each sentence"
    return tag(
        "section",
        tag("h2", "In short"),
        tag("p", f"{answers.span}; {source}", class_="quiet"),
        tag("ul", *(tag("li", sentence) for sentence in answers.sentences)),
        class_="answers",
    )


def overview(fleet: FleetView, places: dict[str, int]) -> Html:
    """Cards, the fleet's histogram, and the groups by trouble. ``places``: group -> number of its section."""
    cards = tag("div", *(_card(headline, places) for headline in words.headlines(fleet)), class_="cards")
    histogram = markup()
    if len(fleet.lines) > 1:
        histogram = tag(
            "figure",
            tag("figcaption", words.causes_title(fleet.buckets, "rebalances of all groups")),
            tag("div", id="fleet-causes", class_="plot low", role="img", aria_label=words.causes_title(fleet.buckets)),
        )
    return tag("section", cards, histogram, _groups(fleet, places), id="overview")


def _card(headline: words.Headline, places: dict[str, int]) -> Html:
    named = [_link(group, places) for group in headline.groups[:NAMED_IN_CARD]]
    rest = len(headline.groups) - NAMED_IN_CARD
    return tag(
        "div",
        tag("strong", headline.text),
        tag("span", headline.detail, class_="quiet"),
        tag("span", *(markup(name, " ") for name in named), f"and {rest:,} more" if rest > 0 else "", class_="names"),
        class_=f"card {headline.tone}",
    )


def _link(group: str, places: dict[str, int]) -> Html:
    if group not in places:
        return tag("span", group)
    return tag("a", group, href=f"#group-{places[group]}", data_group=str(places[group]))


def _groups(fleet: FleetView, places: dict[str, int]) -> Html:
    tallest = max((max(line.strip) for line in fleet.lines), default=1)
    heads = (
        tag("th", tag("button", text, type="button", title=meaning), scope="col", class_="number" if number else None)
        for text, meaning, number in HEADS
    )
    rows = (_row(line, places, tallest) for line in fleet.lines)
    caption = "Groups, those in trouble first" if len(fleet.lines) > 1 else "The group"
    whole = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *rows),
        id="groups",
        class_="sortable stacked",
    )
    note = (
        f"A group never finishes probing if it still asks for probes and the last {STUCK_PROBES} moved nothing, "
        f"or it has been asking for {duration(LONG_PROBING_MS)}. "
        f"A task flaps that moved {FLAP_MOVES} times or more within an hour."
    )
    left_out = sum(line.group not in places for line in fleet.lines)
    if left_out:
        note += (
            f" {many(left_out, 'group has', 'groups have')} no section here, to keep the page small: "
            "write it with --group GROUP."
        )
    return markup(
        tag("div", whole, class_="scroll tall", tabindex="0", role="region", aria_label=caption),
        tag("p", note, class_="quiet note"),
    )


def _row(line: GroupLine, places: dict[str, int], tallest: int) -> Html:
    never = line.probing is not None and line.probing.never_finishes
    cells = (
        (_link(line.group, places), None, None),
        (_strip(line.strip, tallest), None, line.last_ms),
        (f"{line.rebalances:,}", None, line.rebalances),
        (words.per_hour(line.per_hour), None, line.per_hour),
        (f"{line.owner_changes:,}", None, line.owner_changes),
        (f"{line.adopted:,}", None, line.adopted),
        (f"{line.cold:,}", "warn" if line.cold else None, line.cold),
        (_flap_words(line.flapping), "bad" if line.flapping else None, len(line.flapping)),
        (_duration(line.worst_gap_ms), None, line.worst_gap_ms or -1),
        (_probing(line.probing), "bad" if never else None, line.probing.lasted_ms if line.probing else -1),
        ("" if line.members is None else str(line.members), None, line.members or 0),
    )
    written = (
        tag(
            "td",
            text,
            class_=" ".join(filter(None, ("number" if head[2] else "", tone))) or None,
            data_sort=_text(key),
            data_label=head[0],
        )
        for (text, tone, key), head in zip(cells, HEADS, strict=True)
    )
    return tag("tr", *written, class_="never" if never else None)


def _text(key: float | None) -> str | None:
    return None if key is None else str(key)


def _duration(milliseconds: int | None) -> str:
    return "" if milliseconds is None else duration(milliseconds)


def _flap_words(tasks: tuple[str, ...]) -> str:
    if not tasks:
        return "0"
    return f"{len(tasks)}: {', '.join(tasks[:2])}{' …' if len(tasks) > 2 else ''}"


def _probing(probing: Probing | None) -> str:
    if probing is None:
        return "no"
    return (duration(probing.lasted_ms) if probing.lasted_ms >= 1000 else "yes") + (
        f", {probing.idle_probes} idle" if probing.idle_probes else ""
    )


def _strip(counts: tuple[int, ...], tallest: int) -> Html:
    """A small picture, drawn here so that a thousand of them cost nothing: one path of thin bars."""
    path = "".join(
        f"M{index * 2 + 1} 18v-{max(3, round(count * 16 / tallest))}" for index, count in enumerate(counts) if count
    )
    return Html(
        f'<svg class="strip" viewBox="0 0 {len(counts) * 2} 18" aria-hidden="true">'
        f'<path d="M0 17.5H{len(counts) * 2}" class="base"/>'
        f'<path d="{path}"/></svg>'
    )


def stage(groups: list[str]) -> Html:
    """Where a group is shown: a select box, and the places that scripts fill."""
    options = (tag("option", group, value=str(index)) for index, group in enumerate(groups))
    choose = tag(
        "div",
        tag("h2", tag("label", "Group ", for_="choose"), tag("select", *options, id="choose")),
        tag("p", class_="quiet", id="about"),
        class_="choose",
    )
    return tag(
        "section",
        choose,
        tag("figure", tag("figcaption", id="timeline-title"), tag("div", id="timeline"), class_="wide"),
        tag("div", *(_figure(name) for name in ("causes", "skew", "warmups")), class_="plots"),
        *(_block(name) for name in ("flapping", "moves", "rebalances", "processes")),
        id="group",
        data_groups=str(len(groups)),
    )


def _figure(name: str) -> Html:
    return tag("figure", tag("figcaption", id=f"{name}-title"), tag("div", id=name, class_="plot", role="img"))


def _block(name: str) -> Html:
    return tag("div", tag("h3", id=f"{name}-title"), tag("div", id=name), class_="block", id=f"{name}-block")


def unread(fleet: FleetView) -> Html:
    """What stands in the tables beside generations, and what could not be read at all."""
    bad = sum(damage.records for damage in fleet.damage)
    title = f"{many(bad, 'record')} could not be read" if bad else "Every record could be read"
    parts = [tag("h2", title)]
    if fleet.damage:
        shown = fleet.damage[:DAMAGE_SHOWN]
        caption = "Quarantine: their bytes stand in the table of that name"
        if len(fleet.damage) > len(shown):
            caption += f" (the {len(shown)} most frequent of {len(fleet.damage)} reasons)"
        parts.append(table(("records", "kind", "reason", "first at"), [_damage(damage) for damage in shown], caption))
    if fleet.counts:
        counted = [(kind, f"{records:,}") for kind, records in fleet.counts]
        parts.append(table(("kind of record", "records"), counted, "Records read, by kind", class_="narrow"))
    return tag("section", *parts, id="unread")


def _damage(damage: Damage) -> tuple[str, ...]:
    return f"{damage.records:,}", damage.kind, damage.reason, damage.first
