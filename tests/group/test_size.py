"""The group's record: how large it becomes, what is left out of it, and what is said of that."""

from __future__ import annotations

import pytest

from kstreams_assign.assign import AssignConfig
from kstreams_assign.group.size import FULL_SHARE, RECORD_BYTES_MAX, WARN_SHARE
from kstreams_assign.group.values import Adopted
from tests.group.little_group import LittleGroup, shape

MEMBERS, TASKS = 12, 48


def group(record_bytes_max: int = RECORD_BYTES_MAX) -> LittleGroup:
    """Settled once, then one member more, which has warm-ups: the trailers have something to tell."""
    found = LittleGroup(
        shape(), {"orders": TASKS}, AssignConfig(num_standby_replicas=1), record_bytes_max=record_bytes_max
    )
    for number in range(1, MEMBERS + 1):
        found.add(number, f"host-{number}.orders.example:8080")
    found.settle()
    found.add(MEMBERS + 1, "newcomer.orders.example:8080")
    return found


def seen(found: LittleGroup) -> tuple[Adopted, tuple[str, ...]]:
    """What the newcomer reads, and what the leader says of the record's size."""
    decision = found.rebalance()
    newcomer = next(member for member in found.members.values() if member.endpoint.startswith("newcomer"))
    assert newcomer.adopted is not None
    return newcomer.adopted, tuple(w for w in decision.warnings if "one record of" in w)


@pytest.fixture(scope="module")
def whole() -> int:
    """The bytes of the newcomer's rebalance with nothing left out."""
    found = group()
    adopted, warnings = seen(found)
    assert adopted.warmup
    assert adopted.standby_hosts
    assert not warnings
    return found.record_bytes


def test_a_record_of_half_of_what_the_brokers_take_is_warned_about_and_whole(whole):
    assert not seen(group(int(whole / WARN_SHARE) + 1))[1]
    adopted, (warning,) = seen(group(int(whole / WARN_SHARE) - 1))
    assert adopted.warmup
    assert f"one record of {whole:,} bytes" in warning
    assert warning.endswith("before the group grows")
    assert "set max.message.bytes of __consumer_offsets to" in warning


def test_near_the_limit_the_trailers_go_first(whole):
    adopted, (warning,) = seen(group(int(whole / FULL_SHARE) - 1))
    assert adopted.assignor is None
    assert adopted.standby_hosts
    assert "the trailers are left out" in warning


def test_then_the_host_map_of_the_standbys_goes_and_nobody_loses_a_task(whole):
    most = whole * 3 // 5
    found = group(most)
    adopted, (warning,) = seen(found)
    assert adopted.assignor is None
    assert not adopted.standby_hosts
    assert len(adopted.hosts) == MEMBERS + 1  # a Java member that did not find itself would rejoin without end
    assert "host map are left out" in warning
    assert found.record_bytes <= most
    found.settle()  # withheld tasks are given out all the same
    assert len(found.owners()) == TASKS


def test_what_is_too_large_all_the_same_is_said_to_be_refused(whole):
    _, (warning,) = seen(group(whole // 10))
    assert "even without trailers and standby hosts" in warning
    assert f"to {1 << (2 * whole - 1).bit_length():,} or more" in warning
