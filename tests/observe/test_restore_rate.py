"""The restore rate from two joins: only offsets that were read count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kstreams_assign.group.dialects import DIALECTS, Dialect
from kstreams_assign.observe.decoded import decode_group
from kstreams_assign.observe.restore_rate import restore_rate
from tests.group.little_group import END
from tests.observe.seen_group import settled


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_the_state_of_a_task_that_ran_before_was_not_read(dialect: Dialect) -> None:
    """Two tasks move to a newcomer, which reads 950 offsets of each in ten seconds; their first owner reads none."""
    group = settled(members=1, dialect=dialect)
    old, new = *group.members.values(), group.add(2)
    group.rebalance()
    moving = set(new.positions)
    new.positions = dict.fromkeys(moving, END - 1_000)
    group.rebalance()
    earlier = replace(group.snapshot(), assigned_ms=1_000_000)
    new.positions = dict.fromkeys(moving, END - 50)
    group.rebalance()
    old.positions |= dict.fromkeys(moving, END - 10)
    group.rebalance()
    now = group.observed()
    later = replace(now, decoded=decode_group(replace(now.decoded.snapshot, assigned_ms=1_010_000)))
    assert moving <= set(later.decoded.processes[0].offset_sums) - later.decoded.processes[0].active
    assert restore_rate(decode_group(earlier), later) == len(moving) * 950 // 10
