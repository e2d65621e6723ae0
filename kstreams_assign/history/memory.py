"""What the next records of a group have to know of those before: the state between two calls, as bytes.

What lives here: the memory of one group and its translation to and from bytes. What must not: how it changes with a
generation (``derive`` and its neighbours). The bytes are JSON with a format number; only this module reads them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from kstreams_assign.errors import StateError
from kstreams_assign.history.streams_memory import StreamsMemory, as_fields, from_fields

FORMAT = 3

Cell = list[Any]
"""JSON has no tuples."""


@dataclass
class Last:
    """The generation before, as far as a cause may depend on it.

    ``members`` maps each member's identity to its member id, its process and its other fields. ``asked`` says in words
    why a follow-up was requested, ``due_ms`` is when a probe was due. ``ours``: a leader of ours decided.
    ``asking_known`` is False if those bytes do not show it, or could not all be read. ``revoked``: input partitions
    taken from their owners, which no assignment shows if it is the first generation seen.
    """

    generation: int
    time_ms: int
    leader: str | None
    members: dict[str, Cell]
    topics: list[str]
    asked: str | None
    due_ms: int | None
    error_code: int
    ours: bool
    asking_known: bool
    revoked: list[str] = field(default_factory=list)


@dataclass
class Pending:
    """A movement whose new owner has not committed yet: its row without the gap, and the gap's start.

    ``last_commit_ms`` is the old owner's last commit; None where there is none, or no input waited.
    """

    row: Cell
    inputs: list[str]
    last_commit_ms: int | None


@dataclass
class Memory:
    """One Streams group; ``streams`` if it is one of KIP-1071, and then the rest is empty.

    ``owners``: task -> the process that last ran it, and the offset of the record that assigned it. ``copies``: task ->
    process -> since when it has had a copy, in the last generation. ``commits``: input partition -> time and offset of
    its last commit. ``stateful``: subtopologies of which a member reported state. ``removal_ms``: process of the last
    generation -> how long it may be silent before the broker removes it. ``alive_ms``: owner of tasks that has left ->
    until when it was alive. ``partition`` and ``offset`` locate the last record seen.
    """

    partition: int = -1
    offset: int = -1
    last: Last | None = None
    owners: dict[str, Cell] = field(default_factory=dict)
    copies: dict[str, dict[str, int]] = field(default_factory=dict)
    inputs: dict[str, list[str]] = field(default_factory=dict)
    stateful: list[str] = field(default_factory=list)
    commits: dict[str, Cell] = field(default_factory=dict)
    pending: list[Pending] = field(default_factory=list)
    removal_ms: dict[str, int] = field(default_factory=dict)
    alive_ms: dict[str, int] = field(default_factory=dict)
    streams: StreamsMemory | None = None

    def inputs_of(self, task: str) -> list[str]:
        """The input partitions of a task; none while no assignment of it was seen."""
        return self.inputs.get(task, [])

    def seen(self, partition: int, offset: int) -> bool:
        """Whether a record of this place, or a later one, was here before."""
        return partition == self.partition and offset <= self.offset


def opened(state: bytes | None) -> Memory:
    """The memory in ``state``; an empty one without. Raises ``StateError`` for bytes of another release."""
    if not state:
        return Memory()
    fields = json.loads(state)
    if fields.pop("format", None) != FORMAT:
        raise StateError("this state of the history was written by another release; read the topic into a new folder")
    last, pending, streams = fields.pop("last"), fields.pop("pending"), fields.pop("streams")
    return Memory(
        last=Last(**last) if last else None,
        pending=[Pending(**movement) for movement in pending],
        streams=None if streams is None else from_fields(streams),
        **fields,
    )


def closed(memory: Memory) -> bytes:
    """The bytes to keep; none where nothing of a Streams group was seen."""
    if memory.last is None and memory.streams is None:
        return b""
    fields = {
        **vars(memory),
        "last": memory.last and vars(memory.last),
        "pending": [vars(movement) for movement in memory.pending],
        "streams": memory.streams and as_fields(memory.streams),
    }
    return json.dumps({"format": FORMAT, **fields}, separators=(",", ":")).encode()
