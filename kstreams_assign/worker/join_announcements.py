"""What processes that are about to join a streams group write to each other, over the application's topic.

A record's key is the member id, its header ``join`` marks it, and its value is a message of ``wire.join_messages``.
What must not live here: when a process announces itself, and what follows (``engine.warm_join``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from kstreams_assign.errors import KStreamsAssignError, MalformedUserData
from kstreams_assign.events import ProgressUnreadableEvent, WarmJoinAloneEvent
from kstreams_assign.tasks.record import Record
from kstreams_assign.wire.join_messages import JoinAnnounced, read_join_message, write_join_message
from kstreams_assign.worker.events import EventLog
from kstreams_assign.worker.progress_topic import ProgressTopic, let_outages_pass

JOIN = "join"

FLUSH_S = 2.0
"""How long an announcement may take: it counts from its arrival on."""


class JoinAnnouncements:
    """For one thread. The topic is read and made from the first announcement on."""

    def __init__(self, topic: ProgressTopic, log: EventLog) -> None:
        self._topic = topic
        self._log = log
        self._clients = ExitStack()
        self._is_open = False
        self.is_refused = False
        """Whether the brokers refuse the topic to this process; that was reported."""

    def publish(self, message: JoinAnnounced) -> None:
        """Write an announcement. One that does not arrive in an outage is repeated by the caller."""
        with self._unless_refused():
            if not self._is_open:
                self._topic.read(self._clients)  # none that others write from now on is missed
                self._is_open = True
            value = write_join_message(message)
            self._topic.publish(message.member_id.encode(), value, [(JOIN, b"1")], self._clients)
            self._topic.flush(FLUSH_S)

    def heard(self) -> list[JoinAnnounced]:
        """Return what has been announced since the last call; what cannot be read is reported and skipped."""
        records: list[Record] = []
        if self._is_open:
            with self._unless_refused():
                records = self._topic.read(self._clients)
        messages: list[JoinAnnounced] = []
        for record in records:
            if record.value is not None and JOIN in dict(record.headers or ()):
                try:
                    messages.append(read_join_message(record.value))
                except MalformedUserData as cause:
                    where = f"{self._topic.partition} at {record.offset}"
                    self._log.emit(ProgressUnreadableEvent(warnings=(f"{where}: {cause}",)))
        return messages

    def close(self) -> None:
        """Close the clients."""
        self._is_open = False
        self._clients.close()

    @contextmanager
    def _unless_refused(self) -> Iterator[None]:
        """Let outages pass. Report once that the brokers refuse the topic."""
        try:
            with let_outages_pass():
                yield
        except KStreamsAssignError as cause:
            self._refuse(cause)

    def _refuse(self, cause: KStreamsAssignError) -> None:
        if not self.is_refused:
            why = f"{cause}; this process predicts what it will get as if no other joined with it"
            self._log.emit(WarmJoinAloneEvent(warnings=(why,)))
        self.is_refused, self._is_open = True, False
