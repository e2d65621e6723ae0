"""Compare policies: each in each situation, without and with a standby, as numbers, words and reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import Any, NamedTuple

from kstreams_assign.sim.policies.policy import Policy
from kstreams_assign.sim.tables.measure import Measured, measure
from kstreams_assign.sim.tables.reasons import reasons
from kstreams_assign.sim.tables.situations import GROUP, SITUATIONS, Situation
from kstreams_assign.sim.tables.words import EXPECTED, UNEVEN, cost_s, unevenness, word

STANDBYS = (0, 1)
WIDTH = 80
"""The width of a printed line."""


class Column(NamedTuple):
    """A situation with a number of standbys, and the costs of each policy in it."""

    situation: Situation
    standbys: int
    measured: tuple[Measured, ...]

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(word(costs, self.measured) for costs in self.measured)

    def expected_word(self, costs: Measured) -> str | None:
        return EXPECTED.get((costs.policy, self.situation.name, self.standbys))

    @property
    def has_expected(self) -> bool:
        return any(map(self.expected_word, self.measured))

    @property
    def differing(self) -> Mapping[str, str]:
        """Policies whose word differs from the expected one -> the word."""
        words_by_policy = zip(self.measured, self.words, strict=True)
        return {costs.policy: ours for costs, ours in words_by_policy if self.expected_word(costs) not in (None, ours)}


def compare(policies: Sequence[Policy], situations: Sequence[Situation] = SITUATIONS) -> Iterator[Column]:
    """Simulate the policies in all situations, a column at a time."""
    for situation in situations:
        for standbys in STANDBYS:
            yield column(policies, situation, standbys)


def column(policies: Sequence[Policy], situation: Situation, standbys: int) -> Column:
    """Simulate the policies in one situation."""
    group = replace(GROUP, standbys=standbys)
    return Column(situation, standbys, tuple(measure(policy, situation, group) for policy in policies))


def heading(column: Column) -> str:
    return f"{column.situation.title}, {'one standby' if column.standbys else 'no standbys'}"


def table(column: Column, titles: Mapping[str, str]) -> list[str]:
    """Format a column as text, at most ``WIDTH`` wide; ``titles`` by policy."""
    heads = ["", "rebal.", "down s", "restored", "moves", "rest s", "cost s", "word"]
    rows = [
        [
            titles[costs.policy],
            str(costs.rebalances),
            f"{costs.downtime_s:.0f}",
            f"{costs.restored:,}",
            str(costs.moves),
            f"{costs.settled_s:.0f}",
            f"{cost_s(costs):.0f}",
            f"{ours} ({unevenness(costs)})" if ours == UNEVEN else ours,
        ]
        for costs, ours in zip(column.measured, column.words, strict=True)
    ]
    title = wrap(f"{heading(column)}: {column.situation.description}", WIDTH)
    return [*title, *_aligned(heads, rows), *_why(column, titles)]


def _aligned(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, cells)) for cells in zip(heads, *rows, strict=True)]
    words_from = heads.index("word")
    return [
        " ".join(
            cell.rjust(width) if 0 < at < words_from else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (heads, *rows)
    ]


def _why(column: Column, titles: Mapping[str, str]) -> Iterator[str]:
    """Yield the expected words that differ, and the reasons; policies with the same word and reason together."""
    because = dict(reasons(column.situation.name, column.standbys))
    names: dict[tuple[str, str], list[str]] = {}
    for costs in column.measured:
        expected = column.expected_word(costs)
        if costs.policy in column.differing and expected is not None:
            names.setdefault((expected, because.get(costs.policy, "")), []).append(titles[costs.policy])
    for (expected, text), policies in names.items():
        line = f"{', '.join(policies)}: expected {expected}" + (f"; {text}" if text else "")
        yield from wrap(line, WIDTH, initial_indent="  ", subsequent_indent="    ")


def facts(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Return an object for each row of numbers, for ``--json``."""
    return [
        {
            "situation": column.situation.name,
            "standbys": column.standbys,
            "policy": costs.policy,
            "rebalances": costs.rebalances,
            "downtime_s": round(costs.downtime_s, 3),
            "restored": costs.restored,
            "moves": costs.moves,
            "settled_s": costs.settled_s,
            "uneven": costs.uneven,
            "uneven_replicas": costs.uneven_replicas,
            "cost_s": round(cost_s(costs), 3),
            "word": ours,
            "expected": column.expected_word(costs),
            "violations": [f"{violation.invariant}: {violation.detail}" for violation in costs.violations],
        }
        for column in columns
        for costs, ours in zip(column.measured, column.words, strict=True)
    ]
