"""What a refused heartbeat means where the code alone does not say it: INVALID_REQUEST has several causes."""

from __future__ import annotations

import pytest

from kstreams_assign.engine.streams_errors import GROUP_ID_NOT_FOUND, refusal
from kstreams_assign.errors import ConfigError, TopologyMismatch

INVALID_REQUEST = 42
OTHER_TOPOLOGY = "Topology updates are not supported yet."
"""Kafka 4.3.1 and 4.4.0."""


@pytest.mark.parametrize("instance_id", [None, "i-1"])
def test_another_topology_is_named_with_the_way_out_also_to_a_static_member(instance_id: str | None) -> None:
    error = refusal("app", INVALID_REQUEST, OTHER_TOPOLOGY, instance_id)
    assert type(error) is TopologyMismatch
    assert "another topology than this member. A streams group never changes its topology. To run another" in str(error)
    assert str(error).endswith(f"({OTHER_TOPOLOGY})")


@pytest.mark.parametrize("message", [None, "MemberEpoch is invalid."])
def test_any_other_invalid_request_is_not_taken_for_a_topology(message: str | None) -> None:
    error = refusal("app", INVALID_REQUEST, message, "i-1")
    assert type(error) is ConfigError
    assert "static members need brokers of Kafka 4.4" in str(error)


def test_a_group_of_another_protocol_may_have_members_or_be_empty() -> None:
    """An empty one that plain consumers have left behind refuses streams members, and takes classic ones."""
    error = refusal("app", GROUP_ID_NOT_FOUND, "Group app is not a streams group.")
    assert type(error) is ConfigError
    assert str(error) == (
        "heartbeat in streams group app: GROUP_ID_NOT_FOUND: the group is of another protocol: end its members, if it "
        'has any; if it has none, start once with group_protocol = "classic", or change application_id (Group app is '
        "not a streams group.)"
    )
