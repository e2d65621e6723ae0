"""What becomes of an application's outputs and writes that the brokers refuse for good.

A refused output fails its commit once. When the application emits it again it is set aside, as ``on_error`` of the
subtopology says, or the request is refused; the worker goes on either way. What must not live here: how the brokers'
refusals are known again (``worker.refused_outputs``), and requests that wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kstreams_assign.errors import RecordRefused, SidecarRefused
from kstreams_assign.model import TaskId
from kstreams_assign.sidecar.messages import refused
from kstreams_assign.sidecar.session_tasks import SessionTask
from kstreams_assign.tasks.buffer import Emitted
from kstreams_assign.tasks.dead_letters import RECORD_OVERHEAD_BYTES, failure_of
from kstreams_assign.tasks.record import Record
from kstreams_assign.worker.bad_records import BadRecords
from kstreams_assign.worker.locating import partition_of
from kstreams_assign.worker.on_error import Response
from kstreams_assign.worker.refused_outputs import Output

_NO_OFFSET = -1


class RefusedOutput(NamedTuple):
    """An output that the brokers would refuse, and why."""

    output: Emitted
    cause: RecordRefused


class SessionOutputs:
    """``bytes_max`` is what the client lets pass of one record, ``partition_counts`` those of the sinks."""

    def __init__(
        self, bad_records: BadRecords, bytes_max: int, partition_counts: Mapping[str, int], *, exactly_once: bool
    ) -> None:
        self._bad_records = bad_records
        self._bytes_max = bytes_max
        self._partition_counts = partition_counts
        self._exactly_once = exactly_once
        self._write_limits: dict[tuple[int, str], int] = {}
        """By subtopology and store: how many bytes its changelog takes, once it has refused a write."""
        self._failing: SidecarRefused | None = None
        """Why the commit under way fails."""

    # --- at a commit ---------------------------------------------------------------------

    def refuse_output(self, outputs: Sequence[Output], cause: RecordRefused) -> bool:
        """A commit meets a refused output: remember it. False: no output is to blame, and the worker cannot go on."""
        blamed = self._bad_records.to_blame(outputs, cause)
        if not blamed:
            return False
        self._bad_records.remember(cause, blamed)
        set_aside = all(self._bad_records.sets_aside(task) for task, _ in blamed)
        advice = "the output is set aside when it is emitted again" if set_aside else "leave that output out"
        self._failing = refused("commit_failed" if set_aside else "output_refused", self._report(cause, advice))
        return True

    def refuse_write(self, task: TaskId, store: str, cause: RecordRefused) -> bool:
        """A commit meets a value that is too large for a changelog: remember the limit. Otherwise as above."""
        bytes_max = self._bad_records.bytes_max_of(cause.topic) if cause.too_large else None
        if bytes_max is None or cause.size_bytes + RECORD_OVERHEAD_BYTES <= bytes_max:
            return False
        self._write_limits[task.subtopology, store] = bytes_max - RECORD_OVERHEAD_BYTES
        self._failing = refused("output_refused", self._report(cause, "put a smaller value"))
        return True

    def _report(self, cause: RecordRefused, advice: str) -> str:
        if self._exactly_once:
            fate = "none of its puts, deletes and emits counts"
        else:
            fate = "its offsets are not committed; puts, deletes and emits that had been sent may stay"
        return f"{cause}. Of this commit {fate}. Poll its records again, and {advice}."

    def take_failure(self) -> SidecarRefused | None:
        """Return the error of the commit that has just failed, if a refused record is why."""
        failing, self._failing = self._failing, None
        return failing

    # --- at a request ---------------------------------------------------------------------

    def split(
        self, session_task: SessionTask, emitted: Sequence[Emitted], sizes: Sequence[int]
    ) -> tuple[Sequence[Emitted], Sequence[RefusedOutput]]:
        """Return the outputs that can be delivered, as far as is known, and the others, which are to be set aside.

        ``sizes`` are those of the records. Raises ``SidecarRefused`` where nothing may be set aside.
        """
        if max(sizes, default=0) <= self._bytes_max and not self._bad_records.remembers_refusals:
            return emitted, []
        refusals = [self._refusal(session_task, output, size) for output, size in zip(emitted, sizes, strict=True)]
        task = session_task.running.task.id
        if any(refusals) and not self._bad_records.sets_aside(task):
            raise next(map(_as_reply, filter(None, refusals)))
        judged = list(zip(emitted, refusals, strict=True))
        kept = [output for output, cause in judged if cause is None]
        return kept, [RefusedOutput(output, cause) for output, cause in judged if cause is not None]

    def check_writes(self, task: TaskId, store: str, sizes: Sequence[int]) -> None:
        """Raise ``SidecarRefused`` for a value that the store's changelog has been found not to take."""
        limit = self._write_limits.get((task.subtopology, store))
        if limit is not None and max(sizes, default=0) > limit:
            raise refused("too_large", f"a record of {max(sizes)} bytes; the changelog of {store!r} takes {limit}")

    def _refusal(self, session_task: SessionTask, output: Emitted, size: int) -> RecordRefused | None:
        topic = session_task.running.workspace.sinks[output.topic]
        _, key, value, headers, partition, timestamp_ms = output
        if size > self._bytes_max:
            text = f"a record of {size} bytes; a topic takes {self._bytes_max}"
            return RecordRefused(text, topic, -1, key, absent=False, too_large=True, size_bytes=size)
        return self._bad_records.refusal((topic, key, value, headers, partition, timestamp_ms))

    def set_aside(self, session_task: SessionTask, refused_output: RefusedOutput) -> None:
        """Report and count it; its dead letter is the output itself, as no input record is known to be to blame."""
        output, cause = refused_output
        task, topic = session_task.running.task.id, session_task.running.workspace.sinks[output.topic]
        time_ms = output.timestamp_ms or 0
        headers = [*output.headers] or None
        record = Record(topic, self._partition(topic, output), _NO_OFFSET, time_ms, output.key, output.value, headers)
        response = self._bad_records.response(task, record, cause)
        assert response is not Response.FAIL, "sets_aside"
        kind = topic, cause.forbidden, cause.too_large
        rows = self._bad_records.set_aside(task, record, failure_of(cause.with_traceback(None)), response, kind)
        session_task.running.workspace.emit_rows(rows)

    def _partition(self, topic: str, output: Emitted) -> int:
        if output.partition is not None:
            return output.partition
        return 0 if output.key is None else partition_of(output.key, self._partition_counts.get(topic, 1))


def _as_reply(cause: RecordRefused) -> SidecarRefused:
    """What an ``emit`` is answered with where ``on_error`` is ``fail``."""
    if not cause.forbidden and not cause.invalid and cause.partition < 0:
        return refused("too_large", str(cause))
    text = f"{cause}. Nothing of this emit was done; earlier puts, deletes and emits wait for the commit as before."
    return refused("output_refused", text)
