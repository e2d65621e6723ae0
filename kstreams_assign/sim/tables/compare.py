"""Policies side by side: every one in every situation, without and with a standby, as columns of numbers, words and reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import Any, NamedTuple

from kstreams_assign.sim.policies.policy import Policy
from kstreams_assign.sim.tables.measure import Measured, measure
from kstreams_assign.sim.tables.reasons import reasons
from kstreams_assign.sim.tables.situations import GROUP, SITUATIONS, Situation
from kstreams_assign.sim.tables.words import EXPECTED, cost_s, word

STANDBYS = (0, 1)
WIDTH = 100
"""Of a printed line, in columns."""


class Column(NamedTuple):
    """One situation with so many standbys, and what each policy costs in it."""

    situation: Situation
    standbys: int
    measured: tuple[Measured, ...]

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(word(one, self.measured) for one in self.measured)

    def expected_word(self, one: Measured) -> str | None:
        return EXPECTED.get((one.policy, self.situation.name, self.standbys))

    @property
    def has_expected(self) -> bool:
        return any(map(self.expected_word, self.measured))

    @property
    def differing(self) -> Mapping[str, str]:
        """Policies whose word is not the expected one -> the word."""
        told = zip(self.measured, self.words, strict=True)
        return {one.policy: ours for one, ours in told if self.expected_word(one) not in (None, ours)}


def compare(policies: Sequence[Policy], situations: Sequence[Situation] = SITUATIONS) -> Iterator[Column]:
    """Play all of it, a column at a time."""
    for situation in situations:
        for standbys in STANDBYS:
            yield column(policies, situation, standbys)


def column(policies: Sequence[Policy], situation: Situation, standbys: int) -> Column:
    """Play these in one situation."""
    group = replace(GROUP, standbys=standbys)
    return Column(situation, standbys, tuple(measure(policy, situation, group) for policy in policies))


def heading(column: Column) -> str:
    return f"{column.situation.title}, {'one standby' if column.standbys else 'no standbys'}"


def table(column: Column, titles: Mapping[str, str]) -> list[str]:
    """As text, 100 columns at the most; ``titles`` by policy."""
    expected = column.has_expected
    heads = [
        "",
        "rebal.",
        "down s",
        "restored",
        "moves",
        "rest s",
        "cost s",
        *([] if expected else ["uneven"]),
        "word",
        *(["expected"] if expected else []),
    ]
    rows = [
        [
            titles[one.policy],
            str(one.rebalances),
            f"{one.downtime_s:.0f}",
            f"{one.restored:,}",
            str(one.moves),
            f"{one.settled_s:.0f}",
            f"{cost_s(one):.0f}",
            *([] if expected else [str(one.uneven)]),
            ours,
            *([column.expected_word(one) or ""] if expected else []),
        ]
        for one, ours in zip(column.measured, column.words, strict=True)
    ]
    title = wrap(f"{heading(column)}: {column.situation.told}", WIDTH)
    return [*title, *_aligned(heads, rows), *_why(column, titles)]


def _aligned(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, cells)) for cells in zip(heads, *rows, strict=True)]
    words_from = heads.index("word")
    return [
        "  ".join(
            cell.rjust(width) if 0 < at < words_from else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (heads, *rows)
    ]


def _why(column: Column, titles: Mapping[str, str]) -> Iterator[str]:
    """The reasons for what was expected otherwise, those with the same reason together."""
    told: dict[str, list[str]] = {}
    for policy, text in reasons(column.situation.name, column.standbys):
        if policy in column.differing:
            told.setdefault(text, []).append(titles[policy])
    for text, names in told.items():
        yield from wrap(f"{', '.join(names)}: {text}", WIDTH, initial_indent="  ", subsequent_indent="    ")


def facts(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """One object a number line, for ``--json``."""
    return [
        {
            "situation": column.situation.name,
            "standbys": column.standbys,
            "policy": one.policy,
            "rebalances": one.rebalances,
            "downtime_s": round(one.downtime_s, 3),
            "restored": one.restored,
            "moves": one.moves,
            "settled_s": one.settled_s,
            "uneven": one.uneven,
            "cost_s": round(cost_s(one), 3),
            "word": ours,
            "expected": column.expected_word(one),
            "violations": [f"{it.invariant}: {it.detail}" for it in one.violations],
        }
        for column in columns
        for one, ours in zip(column.measured, column.words, strict=True)
    ]
