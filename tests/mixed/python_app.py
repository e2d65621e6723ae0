"""``StreamsApp.java`` as a Python worker: the same topology, arguments, stores, output lines and commands.

By hand: ``python -m tests.mixed.python_app HOST:PORT app-id state-dir topic-a,topic-b 1 max.warmup.replicas=4``.
Commands: ``close``, ``rejoin``, ``shut-down``. It also prints the worker's own events.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock, Thread
from threading import enumerate as running_threads
from traceback import format_stack
from typing import Any

from kstreams_assign import Config, Event, Record, Subtopology, Task, Worker
from kstreams_assign.events import AssignedEvent, StatusEvent, TaskStatus
from tests.java.app_process import AppProcess, arguments

LONG = struct.Struct(">q")
"""Java's ``Serdes.Long()``."""
RUNNING, REBALANCING = "RUNNING", "REBALANCING"


class PythonApp(AppProcess):
    """One instance. ``settings`` have Kafka's dotted names, as in Java."""

    def __init__(
        self,
        bootstrap_servers: str,
        application_id: str,
        state_dir: Path,
        topics: Sequence[str],
        num_standby_replicas: int = 0,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        own = (",".join(topics), str(num_standby_replicas))
        words = arguments(bootstrap_servers, application_id, state_dir, *own, settings=settings)
        super().__init__([sys.executable, "-m", "tests.mixed.python_app", *words])

    def rejoin(self) -> None:
        """Ask the group for a rebalance, as early probing does where all members are Python members."""
        self.tell("rejoin")


def counting(store: str) -> Callable[[Task, Sequence[Record]], None]:
    """Return the application: it counts each key, as a Java long."""

    def count(task: Task, records: Sequence[Record]) -> None:
        totals = task.store(store)
        for record in records:
            assert record.key is not None
            before = totals.get(record.key)
            totals.put(record.key, LONG.pack(1 + (LONG.unpack(before)[0] if before else 0)))

    return count


class EventPrinter:
    """Prints the worker's events, and from its status what the Java application prints."""

    def __init__(self, application: str) -> None:
        self._application = application
        self._printed: dict[str, Mapping[str, Any]] = {}
        self._assigned: Sequence[str] = ()
        self._lock = Lock()

    def hear(self, event: Event) -> None:
        match event:
            case StatusEvent(process_id=process_id, tasks=tasks):
                self._hear_status(f"{self._application}-{process_id}", tasks)
                return
            case AssignedEvent(active=active):
                self._assigned = active
        self._say(event.as_dict())

    def _hear_status(self, client_id: str, tasks: Mapping[str, TaskStatus]) -> None:
        active = sorted(task for task, status in tasks.items() if status.role == "active")
        standby = sorted(task for task, status in tasks.items() if status.role in {"standby", "warmup"})
        assigned = sorted(self._assigned)
        at_work = active == assigned and all(tasks[task].state == "running" for task in active)
        settled = at_work and len(active) + len(standby) == len(tasks)
        waits = {} if settled else {"assigned": assigned, "tasks": {t: f"{s.role} {s.state}" for t, s in tasks.items()}}
        self._say_if_new("state", {"state": RUNNING if settled else REBALANCING, **waits})
        self._say_if_new("tasks", {"active": active, "standby": standby, "threads": [client_id]})

    def say_stacks(self) -> None:
        """Print where each thread is."""
        frames = sys._current_frames()
        stacks = {
            thread.name: format_stack(frames[thread.ident]) for thread in running_threads() if thread.ident in frames
        }
        self._say({"event": "stacks", "text": "".join(f"{name}:\n{''.join(at)}" for name, at in stacks.items())})

    def _say_if_new(self, event: str, facts: Mapping[str, Any]) -> None:
        if self._printed.get(event) != facts:
            self._printed[event] = facts
            self._say({"event": event, **facts})

    def _say(self, event: Mapping[str, Any]) -> None:
        with self._lock:
            print(json.dumps(event), flush=True)


def main(words: Sequence[str]) -> None:
    """Run until a line ``close``, or the end of standard input."""
    servers, application, folder, topics, standbys, *pairs = words
    settings = {key.replace(".", "_"): value(text) for key, text in (pair.split("=", 1) for pair in pairs)}
    config = Config.from_mapping(
        {
            "application_id": application,
            "bootstrap_servers": servers,
            "state_dir": folder,
            "num_standby_replicas": int(standbys),
            "session_timeout_ms": 6_000,
            **settings,
        }
    )
    stores = {topic: f"totals-{topic}" for topic in topics.split(",")}
    topology = [Subtopology(counting(store), sources=[topic], stores=[store]) for topic, store in stores.items()]
    printer = EventPrinter(application)
    worker = Worker(config, topology, on_event=printer.hear)
    Thread(target=obey, args=(worker, printer), name="control", daemon=True).start()
    worker.run()


def value(text: str) -> int | bool | str:
    return int(text) if text.isdecimal() else {"true": True, "false": False}.get(text, text)


def obey(worker: Worker, printer: EventPrinter) -> None:
    for line in sys.stdin:
        if line.strip() == "close":
            break
        if line.strip() == "stacks":
            printer.say_stacks()
        if line.strip() == "rejoin":
            worker.rejoin("asked to")
        if line.strip() == "shut-down":
            worker.shut_application_down()
    worker.close()


if __name__ == "__main__":
    main(sys.argv[1:])
