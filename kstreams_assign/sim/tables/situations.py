"""The situations of a group: the proposal's six scenarios, with times, and what a process may announce.

The group is the same in all of them.

Everything is fixed: only the network's milliseconds are random, and the listed events are the only faults.
"""

from __future__ import annotations

from typing import NamedTuple

from kstreams_assign.sim.scenario import Scenario

GROUP = Scenario(
    processes=4,
    partitions=12,
    stateless_partitions=0,
    acceptable_recovery_lag=1_000,
    first_records=100_000,
    records_per_s=10,
    restored_per_s=5_000,
    commit_interval_ms=5_000,
    state_cleanup_delay_ms=600_000,
)
"""Four processes, twelve tasks of 100,000 records. A process restores 5,000 per second: its three tasks in a minute."""

SHARE = GROUP.partitions // GROUP.processes
SHARE_RECORDS = SHARE * GROUP.first_records
COLD_S = SHARE * SHARE_RECORDS / GROUP.restored_per_s
"""Task-seconds that a process' share of tasks waits for its restore: three tasks for a minute."""


class Event(NamedTuple):
    """``kind``: ``start``, ``leave`` (it closes), ``kill`` (its disk stays), ``wreck`` (its disk is lost).

    ``restart``: it closes and knows that it will be back; most policies have no use for that.
    """

    at_s: int
    kind: str
    slot: int


class Situation(NamedTuple):
    """``before``: the places with a process at rest when it begins.

    ``ends``: it ends with the last event, not at rest.
    """

    name: str
    title: str
    description: str
    before: tuple[int, ...]
    events: tuple[Event, ...]
    ends: bool = False


SITUATIONS = (
    Situation(
        "start",
        "Start",
        "four processes with empty disks start, one every 20 s",
        (),
        tuple(Event(20 * slot, "start", slot) for slot in range(4)),
    ),
    Situation(
        "shutdown",
        "Shutdown",
        "all four leave, one every 20 s; counted until the last one leaves",
        (0, 1, 2, 3),
        tuple(Event(20 * slot, "leave", slot) for slot in range(4)),
        ends=True,
    ),
    Situation("scale_out", "Scale out", "a fourth process starts beside three", (0, 1, 2), (Event(0, "start", 3),)),
    Situation("scale_in", "Scale in", "one of four leaves", (0, 1, 2, 3), (Event(0, "leave", 3),)),
    Situation(
        "bounce",
        "Bounce",
        "one of four leaves and is back after 20 s, with its disk",
        (0, 1, 2, 3),
        (Event(0, "leave", 3), Event(20, "start", 3)),
    ),
    Situation(
        "failover",
        "Failover",
        "one of four dies with its disk, a new one starts after 20 s",
        (0, 1, 2, 3),
        (Event(0, "wreck", 3), Event(20, "start", 3)),
    ),
    Situation(
        "announced_shutdown",
        "Announced shutdown",
        "all four close for a restart, one every 20 s; counted until the last one leaves",
        (0, 1, 2, 3),
        tuple(Event(20 * slot, "restart", slot) for slot in range(4)),
        ends=True,
    ),
    Situation(
        "announced_bounce",
        "Announced bounce",
        "one of four closes for a restart and is back after 20 s, with its disk",
        (0, 1, 2, 3),
        (Event(0, "restart", 3), Event(20, "start", 3)),
    ),
    Situation(
        "rolling_restart",
        "Rolling restart",
        "each of four in turn closes for a restart, and is back after 20 s, with its disk; one every 60 s",
        (0, 1, 2, 3),
        tuple(
            Event(60 * slot + after_s, kind, slot)
            for slot in range(4)
            for after_s, kind in ((0, "restart"), (20, "start"))
        ),
    ),
)
