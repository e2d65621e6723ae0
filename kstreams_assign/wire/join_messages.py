"""What processes write to each other before they join a streams group (KIP-1071): msgpack maps.

A process announces that it is about to join, repeats that while it restores, and says that it has joined or given up.
It names what the brokers' assignor decides by, which is the member id and the process id: tags and racks have no part
in it. Unknown keys are ignored, so that later releases may add some. What must not live here: the topic, and when
anything is written.
"""

from __future__ import annotations

from enum import Enum

from kstreams_assign.errors import MalformedUserData
from kstreams_assign.frozen import dataclass
from kstreams_assign.wire.framing import pack
from kstreams_assign.wire.message_parts import read_map, typed

SUBJECT = "a process that joins"


class Stage(Enum):
    """Where a process stands: it restores, all that it needs is warm, it has joined, or it will not join."""

    RESTORING = "restoring"
    WARM = "warm"
    JOINED = "joined"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class JoinAnnounced:
    """A process is about to join with one member.

    ``since_ms``: when it began, in milliseconds since 1970 by its own clock; only the order of those that join depends
    on it. ``valid_ms``: how long this holds unless it is repeated. ``is_alone``: it waits for no other process any
    longer, so it joins first.
    """

    member_id: str
    process_id: str
    since_ms: int
    stage: Stage
    valid_ms: int
    is_alone: bool = False

    @property
    def place(self) -> tuple[bool, int, str]:
        """Where it comes among those that join: the same to each that knows the same announcements."""
        return not self.is_alone, self.since_ms, self.member_id


def write_join_message(message: JoinAnnounced) -> bytes:
    """Return the bytes of a message."""
    return pack(
        {
            "member": message.member_id,
            "process": message.process_id,
            "since_ms": message.since_ms,
            "stage": message.stage.value,
            "valid_ms": message.valid_ms,
            "alone": message.is_alone,
        }
    )


def read_join_message(value: bytes) -> JoinAnnounced:
    """Return the message in these bytes. Raises ``MalformedUserData``."""
    content = read_map(value, SUBJECT)
    stage = typed(content.get("stage"), str, "stage", SUBJECT)
    if stage not in {each.value for each in Stage}:
        raise MalformedUserData(f"stage of {SUBJECT} is {stage!r}, not one of {[each.value for each in Stage]}")
    return JoinAnnounced(
        typed(content.get("member"), str, "member", SUBJECT),
        typed(content.get("process"), str, "process", SUBJECT),
        typed(content.get("since_ms"), int, "since_ms", SUBJECT),
        Stage(stage),
        typed(content.get("valid_ms"), int, "valid_ms", SUBJECT),
        typed(content.get("alone", False), bool, "alone", SUBJECT),
    )
