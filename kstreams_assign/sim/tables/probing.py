"""Who asks for a probing rebalance: the leader at an interval, members when a copy is caught up, the leader who is told how far they are.

KIP-441 rejects the second ("they will cause storms of rebalances") and misses a channel for the third, which early probing has.
The group: four processes become eight at once, 64 tasks of different size, more or fewer of them warmed up at a time.
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
        taken="the same, but the leader is told how far copies are and asks when it is worth it",
        settings={**kip_441.POLICY.settings, "early_probing": True},
    ),
    replace(_with_ours(kip_441.POLICY, "ours, interval"), taken="least_movement with the interval"),
    replace(_with_ours(members_ask.POLICY, "ours, members ask"), taken="least_movement, and members ask"),
    replace(least_movement.POLICY, title="ours, early"),
)


class Probed(NamedTuple):
    """One rule with so many warm-ups at a time."""

    policy: Policy
    warmups: int
    measured: Measured


def probings(rules: Sequence[Policy] = RULES, warmups: Sequence[int] = WARMUPS) -> Iterator[Probed]:
    for policy in rules:
        for count in warmups:
            bounded = replace(policy, settings={**policy.settings, "max_warmup_replicas": count})
            yield Probed(policy, count, measure(bounded, DOUBLED, GROUP_OF_EIGHT))


def probing_table(probed: Sequence[Probed]) -> Iterator[str]:
    """Rebalances, and seconds until the group is at rest, by the number of warm-ups at a time."""
    counts = sorted({one.warmups for one in probed})
    group = f"{DOUBLED.told}, {GROUP_OF_EIGHT.partitions} tasks of different size, max_warmup_replicas"
    yield f"{group} {', '.join(map(str, counts))}"
    yield f"{'':20}" + "".join(f"  {'rebal.':>6} {'moves':>5} {'rest s':>6}" for _ in counts)
    for name in dict.fromkeys(one.policy.name for one in probed):
        mine = [one for one in probed if one.policy.name == name]
        cells = [f"  {m.rebalances:6} {m.moves:5} {m.settled_s:6.0f}" for _, _, m in mine]
        yield f"{mine[0].policy.title:20}" + "".join(cells)


def probing_facts(probed: Sequence[Probed]) -> list[dict[str, Any]]:
    return [
        {
            "policy": one.policy.name,
            "max_warmup_replicas": one.warmups,
            "rebalances": one.measured.rebalances,
            "moves": one.measured.moves,
            "settled_s": one.measured.settled_s,
            "downtime_s": round(one.measured.downtime_s, 3),
            "restored": one.measured.restored,
        }
        for one in probed
    ]
