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
        self._session_timeout_ms = process.world.scenario.session_timeout_ms
        self._messages: deque[_Message] = deque()
        self._number = 0
        """Of the message in front: an answer to an earlier one is late."""
        self._of_commit = 0
        self._news: Callable[[], None] | None = None
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

    def then(self, call: Callable[[], None]) -> None:
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
        """Send the message in front. Where the network holds it back until the lease has ended, it does not arrive."""
        number, message = self._number, self._messages[0]
        in_lease = self._lease_left_ms > 0

        def append() -> bool:
            held_back = in_lease and self._lease_left_ms <= 0
            if number == self._number and not held_back:
                self._world.send_outputs(self._process, message.outputs)
            return not held_back

        def answered(arrived: bool) -> None:
            if number != self._number:
                return
            if not arrived:
                lost()
                return
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
        self.failed = age_ms >= delivery_limit_ms(self._session_timeout_ms)
        if self.failed:
            self._report()
        else:
            self._world.network.ask(self._process.run, append, answered, lost)

    def _go_on(self) -> None:
        self._of_commit = max(0, self._of_commit - 1)
        if self._messages:
            self._try()
        if not self._of_commit:
            self._report()

    def _report(self) -> None:
        call, self._news = self._news, None
        if call is not None:
            call()

    @property
    def _lease_left_ms(self) -> int:
        return self._process.membership.client.lease_left_ms(self._session_timeout_ms)
