"""What becomes of input records that cannot be processed: ``on_error`` of their subtopology decides.

Kafka: ``ProcessingExceptionHandler`` (KIP-1033) and the dead-letter topic (KIP-1034). What must not live here: how the
guilty record of a batch is identified (``labour``), and the bytes of a dead letter (``tasks.dead_letters``).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence

from kstreams_assign.adapters.clock import monotonic_ms, wall_ms
from kstreams_assign.client_settings import MESSAGE_BYTES_MAX
from kstreams_assign.config import Config
from kstreams_assign.errors import ConfigError, KStreamsAssignError, RecordRefused, SerializationError
from kstreams_assign.events import Event, EventListener, RecordSetAsideEvent
from kstreams_assign.model import TaskId
from kstreams_assign.tasks.buffer import Row
from kstreams_assign.tasks.dead_letters import Failure, dead_letter
from kstreams_assign.tasks.record import Record
from kstreams_assign.worker.meters import Totals
from kstreams_assign.worker.on_error import CHOICES, OnError, Response
from kstreams_assign.worker.refused_outputs import Output, RefusedOutputs, to_blame

CAUSES_MAX = 1_000
"""Causes that are remembered, so that each is logged once; further causes are counted only."""

_OF_A_RECORD = (RecordRefused, SerializationError)

SETTING = "errors_dead_letter_queue_topic_name"


class BadRecords:
    """Set records aside, count them, and report each cause once. ``on_error`` is by subtopology."""

    def __init__(self, on_error: Sequence[OnError], config: Config, now_ms: Callable[[], int] = monotonic_ms) -> None:
        self._on_error = on_error
        self._topic = config.errors_dead_letter_queue_topic_name
        self._causes: set[object] = set()
        self._dropped: Totals[TaskId] = Totals()
        self.bytes_max_of: Callable[[str], int | None] = _unknown
        """How many bytes a record of a topic may have, in the client and in the topic; None if that is unknown."""
        self._refused = RefusedOutputs()
        self._now_ms = now_ms
        self.emit: EventListener = _nothing
        """Where causes are reported."""
        if self._topic is None and any(each == "dead_letter" for each in on_error):
            raise ConfigError(_no_topic())

    def survives(self, task: TaskId, error: BaseException) -> bool:
        """Return whether an error of the user's function may be the fault of a record that can be set aside.

        Other errors of this package (a wrong topic, for example) and a lack of memory would come with every record.
        """
        if isinstance(error, KStreamsAssignError | MemoryError) and not isinstance(error, _OF_A_RECORD):
            return False
        return self.sets_aside(task)

    def sets_aside(self, task: TaskId) -> bool:
        """Return whether the task's subtopology may set records aside."""
        return self._on_error[task.subtopology] != "fail"

    def response(self, task: TaskId, record: Record, error: Exception) -> Response:
        """Return what ``on_error`` answers. Raises ``ConfigError`` for an answer that cannot be followed."""
        on_error = self._on_error[task.subtopology]
        answer = on_error(record, error) if callable(on_error) else on_error
        if answer not in (*Response,):
            raise ConfigError(
                f"on_error of subtopology {task.subtopology} answered {answer!r}: must be {CHOICES}"
            ) from error
        if answer == Response.DEAD_LETTER and self._topic is None:
            raise ConfigError(_no_topic()) from error
        if answer == Response.DEAD_LETTER and record.topic == self._topic:
            raise ConfigError(
                f"on_error of subtopology {task.subtopology} answered 'dead_letter' for a record of the dead-letter "
                f"topic {self._topic}: the letter would come back without end; answer 'fail' or 'skip' for this topic"
            ) from error
        return Response(answer)

    def set_aside(
        self, task: TaskId, record: Record, failure: Failure, response: Response, cause: object, call: str = ""
    ) -> Sequence[Row]:
        """Count a record that is set aside, and report its cause once; return its dead letter, if it gets one.

        ``call`` names a call that no record caused; ``record`` then stands for it.
        """
        self._dropped.add(task, 1)
        if (task.subtopology, cause) not in self._causes and len(self._causes) < CAUSES_MAX:
            self._causes.add((task.subtopology, cause))
            self.emit(
                RecordSetAsideEvent(
                    task=str(task),
                    partition="" if call else f"{record.topic}-{record.partition}",
                    offset=record.offset,
                    response=response.value,
                    reason=failure.text.replace("\n", " "),
                    call=call,
                )
            )
        if response is not Response.DEAD_LETTER:
            return ()
        assert self._topic is not None, "refused by response"
        return (dead_letter(self._topic, record, failure, self.bytes_max_of(self._topic) or MESSAGE_BYTES_MAX),)

    def remember_refusal(self, outputs: Sequence[Output], refused: RecordRefused) -> bool:
        """Remember the outputs that can never be delivered; return whether their input records can be set aside."""
        blamed = self.to_blame(outputs, refused)
        if not blamed or not all(self.sets_aside(task) for task, _ in blamed):
            return False
        self.remember(refused, blamed)
        return True

    def remember(self, refused: RecordRefused, outputs: Sequence[Output]) -> None:
        """Remember outputs, or their whole topic where no record may be written there."""
        self._refused.remember(refused, outputs, self._now_ms())

    def to_blame(self, outputs: Sequence[Output], refused: RecordRefused) -> Sequence[Output]:
        """Return those of the outputs that are refused and that the others can do without; a dead letter is none."""
        if refused.topic == self._topic:
            return []
        bytes_max = self.bytes_max_of(refused.topic) if refused.too_large else None
        return to_blame(refused, outputs, bytes_max, wall_ms())

    @property
    def remembers_refusals(self) -> bool:
        """Return whether ``refusal`` may find anything."""
        return bool(self._refused)

    def refusal(self, row: Row) -> RecordRefused | None:
        """Return why the brokers would refuse an output, as far as that is known."""
        return self._refused.refusal(row, self._now_ms())

    def refuse_outputs(self, rows: Iterable[Row]) -> None:
        """Raise the ``RecordRefused`` of an output that has been refused before."""
        if not self._refused:
            return
        now_ms = self._now_ms()
        for row in rows:
            refused = self._refused.refusal(row, now_ms)
            if refused is not None:
                raise refused.with_traceback(None)

    def dropped(self) -> Mapping[TaskId, int]:
        """Return by task how many records were set aside, again after a commit that failed. From any thread."""
        return self._dropped.view()


def _unknown(_topic: str) -> None:
    """No broker can be asked."""


def _nothing(_event: Event) -> None:
    """No loop is connected."""


def _no_topic() -> str:
    return f"{SETTING}: missing; on_error 'dead_letter' needs it; set it to the name of a topic that exists"


def cause_of(error: BaseException) -> object:
    """Return what two errors of the same cause have in common: their type, and the line that raised them."""
    frames = traceback.extract_tb(error.__traceback__)
    return type(error), (frames[-1].filename, frames[-1].lineno) if frames else None
