"""The commit under way, as the processing loop sees it: what each task brings into it, and what becomes of that.

What must not live here: when a commit begins, or what its end means for the tasks (``engine.tasks``); the steps of
a commit (``committing``). Used on the loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager

from kstreams_assign.config import Config
from kstreams_assign.engine.task_events import CommitEnded
from kstreams_assign.errors import StateError
from kstreams_assign.model import TaskId, TopicPartition, TopologyShape
from kstreams_assign.status.views import DurationView, TaskTopic
from kstreams_assign.tasks.commit import CommitEnd
from kstreams_assign.tasks.stores import TaskStores
from kstreams_assign.worker.beside import BesideCalls
from kstreams_assign.worker.committing import Committer
from kstreams_assign.worker.expiring import Expiries
from kstreams_assign.worker.labour import Labour
from kstreams_assign.worker.running import Running
from kstreams_assign.worker.shares import Share, count_letters


class Commits:
    """One commit after another. ``purge`` is given the offsets of those that succeeded.

    ``unreadable`` is given a task whose store could not be read when expired entries were looked for.
    """

    def __init__(
        self,
        config: Config,
        shape: TopologyShape,
        labour: Labour,
        committer: Committer,
        purge: Callable[[Mapping[TopicPartition, int]], None],
        unreadable: Callable[[TaskId, StateError], None],
    ) -> None:
        self._config = config
        self._shape = shape
        self._labour = labour
        self._committer = committer
        self._purge = purge
        self._expiries = Expiries(unreadable)
        self._beside = BesideCalls(committer.advance_beside_a_call)

    def start(self) -> None:
        """Have the commit under way carried on while the user's function runs."""
        self._beside.start()

    def calling(self) -> AbstractContextManager[None]:
        """Inside, the user's function runs. Raises what the commit under way met meanwhile."""
        return self._beside.calling()

    @property
    def done_total(self) -> int:
        return self._committer.done_total

    @property
    def failed_total(self) -> int:
        return self._committer.failed_total

    @property
    def aborted_total(self) -> int:
        return self._committer.aborted_total

    @property
    def durations(self) -> DurationView:
        return self._committer.durations.view

    def records_produced(self) -> dict[TaskTopic, int]:
        """By task and topic, of the commits so far. From any thread."""
        return self._committer.records_produced.view()

    def dead_letters(self) -> dict[TaskId, int]:
        """By task, the dead letters of the commits so far. From any thread."""
        return self._committer.dead_letters.view()

    def timers_fired(self) -> dict[TaskId, int]:
        """By task, the keyed timers whose effects are in a commit. From any thread."""
        return self._committer.timers_fired.view()

    def entries_expired(self) -> dict[TaskId, int]:
        """By task, the entries that commits have deleted because their time was over. From any thread."""
        return self._committer.entries_expired.view()

    def begin(self, running: Mapping[TaskId, Running], stores: Mapping[TaskId, TaskStores]) -> CommitEnded | None:
        """Take everything that is done so far; return the end of the commit if there is nothing to commit.

        At least once its records are queued at once, so that none that is sent ahead later goes before them.
        """
        self._expiries.find(
            (task, each.expiry, each.offsets.done_to()) for task, each in running.items() if each.expiry is not None
        )
        shares = [self._share(task, each, stores.get(task)) for task, each in running.items() if each.news]
        self._labour.commit_begins()
        self._committer.begin(shares)
        return self._committer.advance()

    @property
    def more_expired(self) -> bool:
        """Whether more entries have expired than one commit may delete."""
        return self._expiries.more

    def send_ahead(self, running: Running) -> None:
        """Send what a task has emitted so far, all of it sealed, before its commit begins."""
        self._committer.send_ahead(running.workspace)

    def _share(self, task: TaskId, running: Running, stores: TaskStores | None) -> Share:
        """What a task brings into a commit."""
        changelogs = self._shape.changelogs(self._config.application_id, task)
        sources = self._shape.source_changelogs
        sourced = frozenset(partition for partition in changelogs.values() if partition.topic in sources)
        written = {store: partition for store, partition in changelogs.items() if partition not in sourced}
        timestamped = self._shape.subtopologies[task.subtopology].timestamped
        work = running.take()
        letters = count_letters(work.taken.emitted, self._config.errors_dead_letter_queue_topic_name)
        return Share(task, stores, written, timestamped, work, running.workspace.landed, sourced, letters)

    def advance(self, *, wait: bool = False) -> CommitEnded | None:
        """Carry on the commit under way, to its end with ``wait``; return how it ended, if it has."""
        return self._committer.advance(wait=wait)

    def settle(self) -> None:
        """Between two commits: see that nothing of a failed one stays open."""
        self._committer.settle()

    def finish(self, end: CommitEnd, running: Mapping[TaskId, Running]) -> None:
        """A commit is over: purge what was read, or keep the offsets of a deferred one for the next."""
        if end is CommitEnd.DONE:
            self._purge(self._committer.offsets())
        elif end is CommitEnd.DEFERRED:
            offsets = self._committer.offsets()
            for each in running.values():  # also a task that is about to leave: its writes are in the store already
                each.offsets.defer(offsets)
        self._labour.commit_ends(end)
        self._expiries.commit_ends(end)

    def abandon(self) -> None:
        """Forget the commit under way."""
        self._committer.abandon()

    def discard_work(self) -> None:
        """Tasks go back to their last commit: drop what was sent ahead."""
        self._committer.discard_work()

    def tell_times(self, leaving: Iterable[Running]) -> None:
        """Exactly once, after the last commit of these: their partition times once more, as Java reads them."""
        offsets: dict[TopicPartition, int] = {}
        metadata: dict[TopicPartition, str] = {}
        for task in leaving:
            metadata |= task.committed_metadata
            offsets |= {partition: task.offsets.positions[partition] for partition in task.committed_metadata}
        if offsets:
            self._committer.tell_times(offsets, metadata)

    def close(self) -> None:
        self._beside.close()
        self._committer.close()
