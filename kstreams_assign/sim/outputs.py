"""The outputs of what a process's tasks have processed, at least once: sent ahead of their commit, the rest with it.

As a client does it, in order, and each message again until it is answered or has taken too long.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kstreams_assign.client_settings import delivery_limit_ms
from kstreams_assign.model import TaskId, TopicPartition

if TYPE_CHECKING:
    from kstreams_assign.sim.committing import Running
    from kstreams_assign.sim.process import Process


Call = Callable[[], None]


class Outputs(NamedTuple):
    """The outputs of a task for the input of a partition from ``first`` up to ``end``."""

    task: TaskId
    partition: TopicPartition
    first: int
    end: int


@dataclass(slots=True)
class _Message:
    outputs: list[Outputs]
    sent_ms: int


class Sent:
    """The messages on their way. ``failed``: one was not delivered, until all are dropped."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._delivery_limit_ms = delivery_limit_ms(process.world.scenario.write_lease_ms)
        self._messages: deque[_Message] = deque()
        self._number = 0
        """Of the message in front: an answer to an earlier one is late."""
        self._of_commit = 0
        self._news: Call | None = None
        self.failed = False

    def send(self, running: Mapping[TaskId, Running]) -> None:
        """Send the outputs of what these have processed and not sent."""
        outputs = [
            Outputs(task, partition, first, at)
            for task, each in running.items()
            for partition, at in each.at.items()
            if at > (first := each.sent_to(partition))
        ]
        for each in running.values():
            each.sent.update(each.at)
        self._queue(outputs)

    def begin_commit(self, outputs: list[Outputs]) -> None:
        """A commit sends the rest. It waits for what is on its way now, and for nothing that is sent later."""
        self._queue(outputs)
        self._of_commit = len(self._messages)

    def _queue(self, outputs: list[Outputs]) -> None:
        if outputs:
            self._messages.append(_Message(outputs, self._world.timeline.now_ms))
            if len(self._messages) == 1:
                self._try()

    @property
    def commit_waits(self) -> bool:
        """Whether something that was sent before the commit is on its way."""
        return self._of_commit > 0

    def then(self, call: Call) -> None:
        """Call at the next news: it has arrived, has to be sent again, or failed."""
        self._news = call

    def drop(self, running: Mapping[TaskId, Running]) -> None:
        """Send nothing of it any more. It counts as not sent."""
        self._number += 1
        self._messages.clear()
        self._of_commit, self._news, self.failed = 0, None, False
        for each in running.values():
            each.sent.clear()

    def _try(self) -> None:
        """Send the message in front, unless that has taken too long."""
        number, message = self._number, self._messages[0]

        def append() -> None:
            if number == self._number:
                self._world.send_outputs(self._process, message.outputs)

        def arrived() -> None:
            if number == self._number:
                self._number += 1
                self._messages.popleft()
                self._go_on()

        def lost() -> None:
            if number != self._number:
                return
            self._report()  # the commit looks at its lease, and may drop this
            if number == self._number:
                self._try()

        age_ms = self._world.timeline.now_ms - message.sent_ms
        self.failed = age_ms >= self._delivery_limit_ms
        if self.failed:
            self._report()
        else:
            send_under_lease(self._process, append, arrived, lost)

    def _go_on(self) -> None:
        self._of_commit = max(0, self._of_commit - 1)
        number = self._number
        if self._of_commit:
            self._report()  # as in ``lost``
        if number == self._number and self._messages:
            self._try()
        if not self._of_commit:
            self._report()

    def _report(self) -> None:
        call, self._news = self._news, None
        if call is not None:
            call()


def send_under_lease(process: Process, append: Call, arrived: Call, lost: Call) -> None:
    """Send records, which the broker appends. What the network holds back until the lease has ended is lost.

    No client can take back what it has sent, so at least once assumes this
    (``docs/explanation/decisions/write-lease.md``).
    """
    client = process.membership.client
    in_lease = client.lease_left_ms > 0

    def receive() -> bool:
        held_back = in_lease and client.lease_left_ms <= 0
        if not held_back:
            append()
        return not held_back

    process.world.network.ask(process.run, receive, lambda received: (arrived if received else lost)(), lost)
