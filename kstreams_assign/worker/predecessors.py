"""Remove the predecessors from the group: the members of killed processes with this state directory.

A rebalance waits for every member, for a dead one until its session ends. The successor therefore joins first, so that
no generation is without it, and then removes its predecessors (LeaveGroup by member id); the rebalance that its own
join began then ends. A member whose join does not wait has no predecessor, and asks nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from kstreams_assign.adapters.kafka_python import remove_members
from kstreams_assign.config import Config
from kstreams_assign.errors import BrokerError, BrokerUnavailable
from kstreams_assign.events import MemberNotKeptEvent, PredecessorRemovedEvent, PredecessorStaysEvent
from kstreams_assign.state.members import Members, Seat
from kstreams_assign.worker.events import EventLog

ANSWER_S = 5.0
REASON = "its process was killed; a successor with the same state directory joins"


class PredecessorCleanup:
    """Remember the members of this state directory, and remove the dead ones; only ``remove`` waits for the brokers.

    ``members`` is None for a member without a state directory, which knows of no predecessor.
    """

    def __init__(self, config: Config, members: Members | None, log: EventLog) -> None:
        self._config = config
        self._members = members
        self._log = log
        mine = config.group_instance_id  # a static member takes its own place over by joining
        before = members.before if members else ()
        self._dead = [seat for seat in before if seat.instance_id is None or seat.instance_id != mine]
        self._join_sent = False

    @property
    def any(self) -> bool:
        """Return whether there may be dead members to remove."""
        return bool(self._dead)

    def joining(self, member_id: str) -> None:
        """Note that JoinGroup is sent; ``member_id`` is empty until the brokers have given one."""
        if member_id and self._members:
            self._keep(self._members.joining, member_id)
            self._join_sent = True

    def joined(self, member_id: str) -> None:
        """Note that a join is over, so it waits for no predecessor."""
        self._dead = []
        if self._members:
            self._keep(self._members.joined, member_id)

    def remove(self) -> None:
        """Remove the dead members if this member's join waits for them. Raises ``BrokerUnavailable``; call it again."""
        if not self._dead or not self._join_sent:
            return
        config = self._config
        try:
            removed = remove_members(
                config.bootstrap_servers, config.client, config.application_id, self._dead, REASON, ANSWER_S
            )
        except BrokerUnavailable:
            raise
        except BrokerError as cause:
            self._log.emit(PredecessorStaysEvent(reason=str(cause)))
        else:
            if removed:
                self._log.emit(PredecessorRemovedEvent(members=tuple(removed)))
        self._dead = []

    def _keep(self, write: Callable[[Seat], None], member_id: str) -> None:
        try:
            write(Seat(member_id, self._config.group_instance_id))
        except OSError as cause:
            why = f"{cause}: if this process is killed, its successor waits until the session ends"
            self._log.emit(MemberNotKeptEvent(warnings=(why,)))
