"""A program with a loop of its own: it counts words in dicts, with plain clients and ``GroupMember``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextlib import closing, suppress
from os import PathLike
from typing import Any, TypeVar
from uuid import UUID

from kstreams_assign import (
    Assignment,
    CommitDeferred,
    Config,
    Drained,
    Event,
    GroupMember,
    Lost,
    Store,
    SubtopologyShape,
    TaskId,
    TopicPartition,
)
from kstreams_assign.adapters.confluent import ClusterAdmin, ConfluentChangelogReader, InputConsumer, RecordProducer
from kstreams_assign.events import BaseEvent
from kstreams_assign.worker.group_member import GroupEvent
from tests.worker.app import PATIENCE_S

E = TypeVar("E", bound=BaseEvent)


class OwnLoop:
    """The loop in a thread of its own. ``read`` and ``write`` make a total of a value, and a value of a total."""

    def __init__(
        self,
        config: Config,
        topic: str,
        store: str,
        number: int,
        *,
        member_dir: str | PathLike[str] | None = None,
        read: Callable[[bytes], int] = int,
        write: Callable[[int], bytes] = b"%d".__mod__,
    ) -> None:
        self.config, self.topic, self.store = config, topic, store
        self._read, self._write = read, write
        self.events: list[Event] = []
        self.asked: list[GroupEvent] = []
        self.running: frozenset[TaskId] = frozenset()
        self.restored: dict[TaskId, int] = {}
        """Records that a task lacked when it became active."""
        self.error: BaseException | None = None
        self._totals: dict[TaskId, dict[bytes, int]] = {}
        self._position: dict[TaskId, int] = {}
        self._followed: dict[TaskId, TopicPartition] = {}
        self._active: frozenset[TaskId] = frozenset()
        self._processed: dict[TopicPartition, int] = {}
        self._admin = ClusterAdmin(config.bootstrap_servers)
        self._ending = threading.Event()
        self._news = threading.Condition()
        shape = [SubtopologyShape((topic,), (Store(store),))]
        self.member = GroupMember(config, shape, UUID(int=number), member_dir=member_dir, on_event=self._hear)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    # --- for the test --------------------------------------------------------------------

    def until(self, met: Callable[[], bool]) -> None:
        with self._news:
            in_time = self._news.wait_for(lambda: met() or self.error is not None, PATIENCE_S)
        assert self.error is None, self.error
        assert in_time, (self.running, self.asked[-3:], self.events[-3:])

    def until_running(self, tasks: int) -> None:
        self.until(lambda: len(self.running) == tasks)

    def reported(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def assignments(self) -> list[Assignment]:
        return [event for event in self.asked if isinstance(event, Assignment)]

    def stop(self) -> None:
        self._ending.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the loop did not end"

    # --- the program -----------------------------------------------------------------------

    def _hear(self, event: Event) -> None:
        with self._news:
            self.events.append(event)
            self._news.notify_all()

    def _run(self) -> None:
        servers, group = self.config.bootstrap_servers, self.config.application_id
        try:
            with (
                self.member,
                closing(RecordProducer(servers, delivery_timeout_ms=60_000)) as self._producer,
                closing(InputConsumer(servers, group_id=group)) as self._input,
                closing(ConfluentChangelogReader(servers, group_id=group, admin=self._admin)) as self._changelogs,
            ):
                while not self._ending.is_set():
                    self._turn()
                self._commit()
        except BaseException as error:  # noqa: BLE001  # the test reads it
            self.error = error
        with self._news:
            self._news.notify_all()

    def _turn(self) -> None:
        event = self.member.poll(0)
        match event:
            case Assignment():
                self._adopt(event)
            case Lost():
                self._processed.clear()
                self._stop_running(self.running)
                self._drop(frozenset(self._totals))
            case Drained():
                self._ending.set()
        if event is not None:
            with self._news:
                self.asked.append(event)
                self._news.notify_all()
        self._follow()
        self._work()
        self._commit()

    def _adopt(self, new: Assignment) -> None:
        self._stop_running(new.revoked & self.running)
        self._commit()
        held = new.active.keys() | new.standby | new.warmup
        self._drop(self._totals.keys() - held)
        self._active = frozenset(new.active)
        for task in held - self._totals.keys():
            self._totals[task], self._position[task] = {}, 0
        for task in held - self.running - self._followed.keys():
            self._changelogs.add({self._changelog(task): self._position[task]})
            self._followed[task] = self._changelog(task)
            self.member.at(task, {self._changelog(task): self._position[task]})
        self.member.let_go()

    def _changelog(self, task: TaskId) -> TopicPartition:
        return self.member.changelogs(task)[self.store]

    def _follow(self) -> None:
        for batch in self._changelogs.poll(0):
            (task,) = (task for task, changelog in self._followed.items() if changelog == batch.partition)
            self._totals[task].update((key, self._read(value)) for key, value in batch.writes if value is not None)
            self._position[task] = batch.next_offset
            self.member.at(task, {batch.partition: batch.next_offset})
            if task in self._active:
                self.restored[task] = self.restored.get(task, 0) + len(batch.writes)
        if waiting := self._active & self._followed.keys():
            ends = self._admin.end_offsets([self._changelog(task) for task in waiting], PATIENCE_S)
            for task in waiting:
                if self._position[task] >= ends[self._changelog(task)]:
                    self._begin(task)

    def _begin(self, task: TaskId) -> None:
        self._changelogs.remove([self._followed.pop(task)])
        source = TopicPartition(self.topic, task.partition)
        self._input.add({source: self.member.committed([source]).get(source, 0)})
        self.member.running(task)
        self._set_running(self.running | {task})

    def _work(self) -> None:
        for partition, records in self._input.poll(1_000, 0.02).items():
            task = TaskId(0, partition.partition)
            for record in records:
                assert record.key is not None
                total = self._totals[task][record.key] = self._totals[task].get(record.key, 0) + 1
                self._producer.produce(self._changelog(task).topic, task.partition, record.key, self._write(total))
                self._processed[partition] = record.offset + 1

    def _commit(self) -> None:
        if self._processed:
            self._producer.flush(PATIENCE_S)
            with suppress(CommitDeferred):
                self.member.commit(self._processed)
                self._processed = {}

    def _stop_running(self, tasks: frozenset[TaskId]) -> None:
        self._input.remove([TopicPartition(self.topic, task.partition) for task in tasks])
        self._set_running(self.running - tasks)
        for task in tasks:  # it may become a standby, which reads on from where its changelog ends now
            self._position[task] = 0

    def _drop(self, tasks: AbstractSet[TaskId]) -> None:
        self._changelogs.remove([self._followed.pop(task) for task in tasks if task in self._followed])
        for task in tasks:
            del self._totals[task], self._position[task]
            self.member.forget(task)

    def _set_running(self, tasks: frozenset[TaskId]) -> None:
        with self._news:
            self.running = tasks
            self._news.notify_all()


def settings_of(name: str, broker: str, **settings: Any) -> Config:
    """Return the settings of a loop in a streams group; a busy machine is no reason to lose the membership."""
    streams: dict[str, Any] = {"group_protocol": "streams", "session_timeout_ms": 30_000, **settings}
    return Config(application_id=name, bootstrap_servers=broker, **streams)
