"""The member id of a process in a streams group: that of the last process with its directory, or a new one."""

from __future__ import annotations

from uuid import UUID, uuid4

from kstreams_assign.events import MemberNotKeptEvent
from kstreams_assign.state.members import Members, Seat
from kstreams_assign.worker.events import EventLog


def member_id_of(members: Members | None, instance_id: str | None, log: EventLog) -> tuple[str, bool]:
    """Return this process's member id, and whether it is kept for the next one.

    The lock of the directory says that the last process has ended. A member with another ``instance_id`` is another.
    """
    if members is None:
        return str(uuid4()), False
    kept = [seat.member_id for seat in members.before if seat.instance_id == instance_id and _is_uuid(seat.member_id)]
    member_id = kept[-1] if kept else str(uuid4())
    try:
        members.joined(Seat(member_id, instance_id))
    except OSError as cause:
        why = f"{cause}: if this process is killed, its tasks wait until its session ends"
        log.emit(MemberNotKeptEvent(warnings=(why,)))
        return member_id, False
    return member_id, True


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
