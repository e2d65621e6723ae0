"""Whose fault it is that a record of a commit cannot be delivered: a task's, an output's, or nobody's.

What must not live here: the steps of a commit (``committing``), and which outputs are remembered (``refused_outputs``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kstreams_assign.errors import RecordRefused
from kstreams_assign.model import TaskId, TopicPartition
from kstreams_assign.worker.refused_outputs import Output
from kstreams_assign.worker.shares import Share

SetsOutputAside = Callable[[Sequence[Output], RecordRefused], bool]
"""Whether a refused output is set aside, or its input is, when the tasks of these outputs process their input again."""

RefusesWrite = Callable[[TaskId, str, RecordRefused], bool]
"""Whether a value that the changelog of a task's store refuses is not written again."""


class Refusals:
    """Judges what the brokers refuse. By default nothing may be missing."""

    def __init__(
        self, sets_output_aside: SetsOutputAside | None = None, refuses_write: RefusesWrite | None = None
    ) -> None:
        self._sets_output_aside = sets_output_aside
        self._refuses_write = refuses_write

    def check(self, shares: Sequence[Share], refused: RecordRefused) -> None:
        """Return if the commit may fail, and the tasks process their input again. Raise the error with its task if not.

        A changelog that is deleted stops its own task, which waits for it when it is restored. An output may be left
        out, or its input record set aside.
        """
        owners, outputs = _owners(shares, refused), _outputs(shares, refused)
        if owners:
            mended = refused.absent or (self._refuses_write is not None and self._refuses_write(*owners[0], refused))
        else:
            mended = self._sets_output_aside is not None and self._sets_output_aside(outputs, refused)
        if not mended:
            tasks = " or ".join(map(str, dict.fromkeys(task for task, _ in [*owners, *outputs])))
            raise refused.of_task(tasks) from refused


def _owners(shares: Sequence[Share], refused: RecordRefused) -> list[tuple[TaskId, str]]:
    """Return the task and the store whose changelog it was: the partition says it."""
    at = TopicPartition(refused.topic, refused.partition)
    return [(share.task, store) for share in shares for store, changelog in share.changelogs.items() if changelog == at]


def _outputs(shares: Sequence[Share], refused: RecordRefused) -> list[Output]:
    """Return the outputs that may be meant; several may have the same topic, key and value."""
    return [
        Output(share.task, row)
        for share in shares
        for row in share.work.taken.emitted
        if row[0] == refused.topic and hash(row[1:3]) in refused.contents
    ]
