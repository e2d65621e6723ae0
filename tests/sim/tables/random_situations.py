"""Random situations: processes join, leave, die and restart at random times; tasks of any size and speed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from kstreams_assign.sim.scenario import Scenario
from kstreams_assign.sim.tables.situations import GROUP, Event, Situation

AWAY_S = (10, 20, 40)
APART_S = (5, 20, 40, 90)
RETURNS: Mapping[str, str] = {"bounce": "leave", "restart": "restart", "replace": "wreck"}
"""The kinds of events after which the process starts again -> how it ends."""


def drawn(seed: int, *, announced: bool = False) -> tuple[Situation, Scenario]:
    """Return a situation of one to eight events, and its group.

    ``announced``: a process that closes and will be back always says so; otherwise in half of the cases.
    """
    random = Random(seed)
    group = replace(
        GROUP,
        partitions=random.choice((4, 8, 12, 17)),
        first_records=random.choice((20_000, 50_000, 100_000)),
        restored_per_s=random.choice((5_000, 10_000, 20_000)),
        standbys=random.choice((0, 1)),
    )
    starting = range(random.randint(2, 5))
    at_s, events = 0, []
    from_rest = random.random() < 0.75
    if not from_rest:
        for slot in starting:
            events.append(Event(at_s, "start", slot))
            at_s += random.choice(APART_S)
    up, fresh = set(starting), len(starting)
    for _ in range(random.randint(1, 3)):
        kind = random.choice(("start", "start", "leave", "kill", "wreck", *RETURNS)) if len(up) > 1 else "start"
        if kind == "start":
            events.append(Event(at_s, kind, fresh))
            up.add(fresh)
            fresh += 1
        else:
            slot = random.choice(sorted(up))
            ends = "restart" if announced and kind == "bounce" else RETURNS.get(kind, kind)
            events.append(Event(at_s, ends, slot))
            if kind in RETURNS:
                events.append(Event(at_s + random.choice(AWAY_S), "start", slot))
            else:
                up.remove(slot)
        at_s += random.choice(APART_S)
    before = tuple(starting) if from_rest else ()
    return Situation(f"seed {seed}", "", "", before, tuple(sorted(events))), group
