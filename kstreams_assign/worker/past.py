"""The members that processes before this one left in the group when they were killed: they are taken out.

A rebalance waits for every member that it knows, for a dead one until its session ends. The successor therefore joins first, so
that no generation is without it, and then takes its predecessors out (LeaveGroup by member id); the rebalance that its own join has
begun then ends. Whoever joins without waiting has none, and asks nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from kstreams_assign.adapters.kafka_python import remove_members
from kstreams_assign.config import Config
from kstreams_assign.errors import BrokerError, BrokerUnavailable
from kstreams_assign.state.members import Members, Seat
from kstreams_assign.worker.events import EventLog

ANSWER_S = 5.0
REASON = "it was killed; its successor on the same state directory joins"


class Past:
    """``members`` is None for a member without a state directory: it knows of no predecessor. ``make_way`` waits; the rest does not."""

    def __init__(self, config: Config, members: Members | None, log: EventLog) -> None:
        self._config = config
        self._members = members
        self._log = log
        mine = config.group_instance_id  # a static member takes its seat over by joining
        before = members.before if members else ()
        self._dead = [seat for seat in before if seat.instance_id is None or seat.instance_id != mine]
        self._in_the_queue = False

    @property
    def known(self) -> bool:
        """Whether there may be dead members to take out."""
        return bool(self._dead)

    def joining(self, member_id: str) -> None:
        """JoinGroup is about to leave; ``member_id`` is empty as long as the brokers have given none."""
        if member_id and self._members:
            self._keep(self._members.joining, member_id)
            self._in_the_queue = True

    def joined(self, member_id: str) -> None:
        """A join is over: nobody is waited for any more."""
        self._dead = []
        if self._members:
            self._keep(self._members.joined, member_id)

    def make_way(self) -> None:
        """Take the dead out, if a join of ours waits for them. Raises ``BrokerUnavailable``: then to be called again."""
        if not self._dead or not self._in_the_queue:
            return
        config = self._config
        try:
            removed = remove_members(
                config.bootstrap_servers, config.client, config.application_id, self._dead, REASON, ANSWER_S
            )
        except BrokerUnavailable:
            raise
        except BrokerError as cause:
            self._log.emit("predecessor_stays", reason=str(cause))
        else:
            if removed:
                self._log.emit("predecessor_removed", members=removed)
        self._dead = []

    def _keep(self, write: Callable[[Seat], None], member_id: str) -> None:
        try:
            write(Seat(member_id, self._config.group_instance_id))
        except OSError as cause:
            why = f"{cause}: should this process be killed, its successor waits until the session ends"
            self._log.emit("member_not_kept", warnings=[why])
