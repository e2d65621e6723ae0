"""What a refused heartbeat of a streams group means: to try again, to join from nothing, or to end with one error.

Kafka: ``StreamsGroupHeartbeatRequestManager.onErrorResponse``. Errors that mean
"try again" come before or after the coordinator has acted on the heartbeat, so what it did is not known then.
"""

from __future__ import annotations

from collections.abc import Mapping

from kstreams_assign.errors import BrokerError, ConfigError, InstanceFenced, KStreamsAssignError, TopologyMismatch
from kstreams_assign.group.streams_topology import TO_CHANGE_IT

LOAD_IN_PROGRESS, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH = 25, 110
FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID = 82, 111

INVALID_REQUEST = 42
OTHER_TOPOLOGY = "Topology updates are not supported"
"""What brokers (4.3.1, 4.4.0) say of another topology than the group's; its code is that of any invalid request."""

GROUP_ID_NOT_FOUND = 69
"""A join creates the group, so it is refused because the group is of another protocol. To a member it means that the
group was deleted (Kafka: ``GroupMetadataManager.getOrCreateStreamsGroup`` and ``getStreamsGroupOrThrow``)."""

GROUP_MAX_SIZE_REACHED = 81
"""A join meets a full group; brokers of 4.3.1 say so also to a member that the group has already."""

AGAIN = frozenset({LOAD_IN_PROGRESS, NOT_AVAILABLE, NOT_COORDINATOR})
"""The coordinator loads or has moved: send the heartbeat again, to the coordinator of then."""

FENCED = frozenset({UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH})
"""The group went on without this member: give up all tasks, and join again."""

_STREAMS_OFF = (
    "the brokers have no streams groups: they need Kafka 4.1 or later, and the feature streams.version = 1; "
    "upgrade the brokers, or use the classic protocol"
)
_OTHER_PROTOCOL = (
    "the group is of another protocol: end its members, if it has any; if it has none, start once with "
    'group_protocol = "classic", or change application_id'
)
_TOPOLOGY = f"the group has another topology than this member. {TO_CHANGE_IT}"

_MEANINGS: Mapping[int, tuple[type[KStreamsAssignError], str, str]] = {
    29: (
        BrokerError,
        "TOPIC_AUTHORIZATION_FAILED",
        "allow this member to describe and create the application's topics",
    ),
    30: (BrokerError, "GROUP_AUTHORIZATION_FAILED", "allow this member to read the group"),
    35: (ConfigError, "UNSUPPORTED_VERSION", _STREAMS_OFF),
    INVALID_REQUEST: (ConfigError, "INVALID_REQUEST", "the brokers refuse what this member reports of itself"),
    GROUP_ID_NOT_FOUND: (ConfigError, "GROUP_ID_NOT_FOUND", _OTHER_PROTOCOL),
    GROUP_MAX_SIZE_REACHED: (
        ConfigError,
        "GROUP_MAX_SIZE_REACHED",
        "raise group.streams.max.size of the brokers, or start fewer members",
    ),
    FENCED_INSTANCE_ID: (
        InstanceFenced,
        "FENCED_INSTANCE_ID",
        "another process has joined with the same group_instance_id",
    ),
    UNRELEASED_INSTANCE_ID: (
        InstanceFenced,
        "UNRELEASED_INSTANCE_ID",
        "another process is a member with the same group_instance_id",
    ),
    130: (TopologyMismatch, "STREAMS_INVALID_TOPOLOGY", "the brokers refuse the topology of this member"),
    131: (TopologyMismatch, "STREAMS_INVALID_TOPOLOGY_EPOCH", _TOPOLOGY),
    132: (TopologyMismatch, "STREAMS_TOPOLOGY_FENCED", _TOPOLOGY),
}
"""The code of a final refusal -> the error that ends this member, Kafka's name of the code, and what to do."""


_STATIC: Mapping[int, str] = {
    35: "static members need brokers of Kafka 4.4 or later, all of them, with the feature streams.version = 1",
    INVALID_REQUEST: "static members need brokers of Kafka 4.4 or later, all of them, or the brokers refuse something "
    "else",
    FENCED_INSTANCE_ID: "another process has joined with it; each process needs its own",
    UNRELEASED_INSTANCE_ID: "another process is a member with it, or was killed less than the group's session timeout "
    "ago; give each process its own, or keep state_dir, which makes it the same member",
}
"""The code of a final refusal -> what it means for a static member."""


def refusal(group: str, code: int, message: str | None, instance_id: str | None = None) -> KStreamsAssignError:
    """Return the error for a heartbeat that no other attempt mends; a code without a meaning is a ``BrokerError``.

    ``instance_id``: of a static member.
    """
    kind, name, meaning = _MEANINGS.get(code, (BrokerError, f"error code {code}", "the brokers' logs say why"))
    if code == INVALID_REQUEST and message is not None and OTHER_TOPOLOGY in message:
        kind, meaning = TopologyMismatch, _TOPOLOGY
    elif instance_id is not None and (of_static := _STATIC.get(code)) is not None:
        meaning = f"group_instance_id = {instance_id!r}: {of_static}"
    said = f" ({message})" if message else ""
    return kind(f"heartbeat in streams group {group}: {name}: {meaning}{said}")
