"""The group's record: how large it becomes, what is left out of it, and the warnings."""

from __future__ import annotations

import pytest

from kstreams_assign.assign import AssignConfig
from kstreams_assign.group.size import FULL_SHARE, RECORD_BYTES_MAX, WARN_SHARE
from kstreams_assign.group.values import Adopted
from tests.group.little_group import LittleGroup, shape

MEMBERS, TASKS = 12, 48


def group(record_bytes_max: int = RECORD_BYTES_MAX) -> LittleGroup:
    """Return a settled group with one new member, which has warm-ups: the trailers contain something."""
    little = LittleGroup(
        shape(), {"orders": TASKS}, AssignConfig(num_standby_replicas=1), record_bytes_max=record_bytes_max
    )
    for number in range(1, MEMBERS + 1):
        little.add(number, f"host-{number}.orders.example:8080")
    little.settle()
    little.add(MEMBERS + 1, "newcomer.orders.example:8080")
    return little


def seen(little: LittleGroup) -> tuple[Adopted, tuple[str, ...]]:
    """Return what the new member reads, and the leader's warnings about the record's size."""
    decision = little.rebalance()
    newcomer = next(member for member in little.members.values() if member.endpoint.startswith("newcomer"))
    assert newcomer.adopted is not None
    return newcomer.adopted, tuple(w for w in decision.warnings if "one record of" in w)


@pytest.fixture(scope="module")
def whole() -> int:
    """Return the size of the record with nothing left out."""
    little = group()
    adopted, warnings = seen(little)
    assert adopted.warmup
    assert adopted.standby_hosts
    assert not warnings
    return little.record_bytes


def test_a_record_of_half_the_limit_is_complete_and_causes_a_warning(whole):
    assert not seen(group(int(whole / WARN_SHARE) + 1))[1]
    adopted, (warning,) = seen(group(int(whole / WARN_SHARE) - 1))
    assert adopted.warmup
    assert f"one record of {whole:,} bytes" in warning
    assert warning.endswith("before the group grows")
    assert "set max.message.bytes of __consumer_offsets to" in warning


def test_near_the_limit_the_trailers_are_left_out_first(whole):
    adopted, (warning,) = seen(group(int(whole / FULL_SHARE) - 1))
    assert adopted.assignor is None
    assert adopted.standby_hosts
    assert "the trailers are left out" in warning


def test_then_the_standbys_host_map_is_left_out_and_no_member_loses_a_task(whole):
    most = whole * 3 // 5
    little = group(most)
    adopted, (warning,) = seen(little)
    assert adopted.assignor is None
    assert not adopted.standby_hosts
    assert len(adopted.hosts) == MEMBERS + 1  # a Java member that does not find itself would rejoin for ever
    assert "host map are left out" in warning
    assert little.record_bytes <= most
    little.settle()  # withheld tasks are assigned nevertheless
    assert len(little.owners()) == TASKS


def test_a_record_that_is_still_too_large_is_reported_as_refused(whole):
    _, (warning,) = seen(group(whole // 10))
    assert "even without trailers and standby hosts" in warning
    assert f"to {1 << (2 * whole - 1).bit_length():,} or more" in warning
