"""Triggers of probing rebalances: the leader's interval, a member with a caught-up replica, or early probing.

KIP-441 rejects the second ("they will cause storms of rebalances") and lacks a channel for the third. The group: four
processes become eight at once, 64 tasks of different size, with different limits of warm-ups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kstreams_assign.sim.policies import kip_441, least_movement, members_ask
from kstreams_assign.sim.policies.policy import Policy
from kstreams_assign.sim.tables.measure import Measured, measure
from kstreams_assign.sim.tables.situations import GROUP, Event, Situation

DOUBLED = Situation(
    "doubled",
    "Doubled",
    "four processes become eight",
    (0, 1, 2, 3),
    tuple(Event(0, "start", slot) for slot in range(4, 8)),
)
GROUP_OF_EIGHT = replace(GROUP, processes=8, standbys=0, partitions=64, first_records=20_000, more_records=2_000)
WARMUPS = (2, 8, 64)
TITLE_WIDTH = 20
"""Of a table's first column."""


def _with_ours(policy: Policy, title: str) -> Policy:
    settings = {**policy.settings, "assignor": "least_movement"}
    return replace(policy, name=f"{policy.name}_least", title=title, settings=settings)


RULES: tuple[Policy, ...] = (
    kip_441.POLICY,
    members_ask.POLICY,
    replace(
        kip_441.POLICY,
        name="early",
        title="KIP-441, early",
        taken="the same, but members report their offsets and the leader probes as soon as tasks would move",
        settings={**kip_441.POLICY.settings, "early_probing": True},
    ),
    replace(_with_ours(kip_441.POLICY, "ours, interval"), taken="least_movement with the interval"),
    replace(_with_ours(members_ask.POLICY, "ours, members ask"), taken="least_movement, and members ask"),
    replace(least_movement.POLICY, title="ours, early"),
)


class Probed(NamedTuple):
    """A rule with a limit of warm-ups, and its costs."""

    policy: Policy
    warmups: int
    measured: Measured


def probings(rules: Sequence[Policy] = RULES, warmups: Sequence[int] = WARMUPS) -> Iterator[Probed]:
    for policy in rules:
        for count in warmups:
            bounded = replace(policy, settings={**policy.settings, "max_warmup_replicas": count})
            yield Probed(policy, count, measure(bounded, DOUBLED, GROUP_OF_EIGHT))


def probing_table(probed: Sequence[Probed]) -> Iterator[str]:
    """Yield the table: rebalances, moves and seconds until rest, by the limit of warm-ups."""
    counts = sorted({probe.warmups for probe in probed})
    yield f"{DOUBLED.description}; {GROUP_OF_EIGHT.partitions} tasks of different size"
    yield ""
    yield f"{'max_warmup_replicas':{TITLE_WIDTH}}" + "".join(f"{count:>20}" for count in counts)
    yield f"{'':{TITLE_WIDTH}}" + "".join(f" {'rebal.':>6} {'moves':>5} {'rest s':>6}" for _ in counts)
    for name in dict.fromkeys(probe.policy.name for probe in probed):
        mine = [probe for probe in probed if probe.policy.name == name]
        cells = [f" {m.rebalances:6} {m.moves:5} {m.settled_s:6.0f}" for _, _, m in mine]
        yield f"{mine[0].policy.title:{TITLE_WIDTH}}" + "".join(cells)


def probing_facts(probed: Sequence[Probed]) -> list[dict[str, Any]]:
    return [
        {
            "policy": probe.policy.name,
            "max_warmup_replicas": probe.warmups,
            "rebalances": probe.measured.rebalances,
            "moves": probe.measured.moves,
            "settled_s": probe.measured.settled_s,
            "downtime_s": round(probe.measured.downtime_s, 3),
            "restored": probe.measured.restored,
        }
        for probe in probed
    ]
