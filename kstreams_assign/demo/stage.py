"""One application under load: its topics, orders, workers, their events and output.

What lives here: carrying out commands and keeping fleet_state and output up to date. What must not: what to do when
(``story``). The demonstration and the tests use the same stage.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

from kstreams_assign.adapters.clock import monotonic_ms
from kstreams_assign.adapters.confluent import ClusterAdmin
from kstreams_assign.demo.app import Row, orders_topic, totals_topic
from kstreams_assign.demo.check import Findings, compare
from kstreams_assign.demo.evidence import Output, changelog_lengths, read_changelogs, read_stores
from kstreams_assign.demo.fleet import WORKER_COMMAND, Fleet
from kstreams_assign.demo.fleet_state import Event, FleetState
from kstreams_assign.demo.orders import order_stream
from kstreams_assign.demo.story import (
    Command,
    DemoFailed,
    KillWorker,
    StartOrders,
    StartWorker,
    StopOrders,
    StopWorkers,
    World,
)
from kstreams_assign.demo.traffic import Traffic

TOPICS_WITHIN_S = 30.0
CLOSE_PATIENCE_S = 60.0
LOOK_INTERVAL_MS = 1_000


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """What a run is made of. ``worker`` are keys of ``Config``."""

    seed: int = 7
    orders_per_s: int = 3_000
    partitions: int = 6
    application_id: str = "demo"
    worker: Mapping[str, int | str] = field(
        default_factory=lambda: {
            "num_standby_replicas": 1,
            "acceptable_recovery_lag": 1_000,
            "max_warmup_replicas": 4,
            "probing_rebalance_interval_ms": 60_000,
            "session_timeout_ms": 10_000,
        }
    )


class Stage:
    """A context manager; at its end no process and no thread is left. ``folder`` gets the workers' state and logs."""

    def __init__(
        self,
        bootstrap_servers: str,
        folder: Path,
        settings: DemoSettings,
        worker_command: Sequence[str] = WORKER_COMMAND,
    ) -> None:
        self.fleet_state = FleetState()
        self.settings = settings
        self._servers = bootstrap_servers
        self._folder = folder
        self._admin = ClusterAdmin(bootstrap_servers)
        self._fleet = Fleet(worker_command, folder)
        orders = orders_topic(settings.application_id)
        self._traffic = Traffic(bootstrap_servers, orders, order_stream(settings.seed), settings.orders_per_s)
        self._exits_expected: Counter[str] = Counter()
        self._last_owners: Mapping[str, str] = {}
        self._shortest_changelog = 0
        self._next_look_ms = 0
        self._open = ExitStack()

    @property
    def journal(self) -> Path:
        """Every event of the run, one JSON object a line."""
        return self._folder / "events.jsonl"

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            opening.enter_context(self._fleet)
            opening.enter_context(self._traffic)
            self._journal = opening.enter_context(self.journal.open("w", encoding="utf-8"))
            self._make_topics()
            topic, group = totals_topic(self.settings.application_id), self.settings.application_id
            self._output = Output(self._servers, topic, self.settings.partitions, group_id=group)
            opening.enter_context(closing(self._output))
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def _make_topics(self) -> None:
        names = orders_topic(self.settings.application_id), totals_topic(self.settings.application_id)
        self._admin.create_topics(dict.fromkeys(names, self.settings.partitions), TOPICS_WITHIN_S)

    # --- what is seen ---------------------------------------------------------------

    @property
    def orders_in(self) -> int:
        """Orders that the broker has acknowledged."""
        return self._traffic.acknowledged

    @property
    def all_processed(self) -> bool:
        """Orders have stopped, and for each partition the row of the last one has come out."""
        ends = {at.partition: end for at, end in self._traffic.ends.items()}
        return not self._traffic.running and all(self._output.reached.get(p, 0) >= end for p, end in ends.items())

    @property
    def world(self) -> World:
        return World(self.settings.partitions, self._shortest_changelog, self.all_processed)

    def rows(self) -> list[Row]:
        """The output topic as far as it was read."""
        return self._output.rows()

    def turn(self, timeout_s: float) -> list[Event]:
        """Take in what has happened; waits for the first event only.

        Raises ``DemoFailed`` for a worker that died by itself, ``BrokerError`` for orders that could not be written.
        """
        events = list(self._fleet.heard(timeout_s))
        for event in events:
            self.fleet_state.hear(event)
            print(json.dumps(event), file=self._journal)
            self._check_exit(event)
        self._traffic.check()
        self._output.follow(0)
        self._look_at_changelogs()
        return events

    def _check_exit(self, event: Event) -> None:
        name = event["worker"]
        if event["event"] != "exited":
            return
        self._exits_expected[name] -= 1
        if self._exits_expected[name] < 0:
            lines = self._fleet.log(name).read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
            raise DemoFailed("\n".join([f"worker {name} ended by itself with status {event['status']}", *lines]))

    def _look_at_changelogs(self) -> None:
        if monotonic_ms() < self._next_look_ms:
            return
        self._next_look_ms = monotonic_ms() + LOOK_INTERVAL_MS
        lengths = changelog_lengths(self._admin, self.settings.application_id, self.settings.partitions)
        self._shortest_changelog = min(lengths.values(), default=0)

    # --- what is done ---------------------------------------------------------------

    def do(self, command: Command) -> None:
        """Carry out a command of the script."""
        if isinstance(command, StartWorker):
            self.start_worker(command.name)
        elif isinstance(command, KillWorker):
            self.kill_worker(command.name)
        elif isinstance(command, StartOrders):
            self._traffic.start()
        elif isinstance(command, StopOrders):
            self._traffic.stop()
        elif isinstance(command, StopWorkers):
            self.stop_workers()

    def start_worker(self, name: str) -> None:
        """Start it, or start it again on the state it left behind."""
        settings = [f"--set={key}={value}" for key, value in self.settings.worker.items()]
        where = ["--bootstrap", self._servers, "--application-id", self.settings.application_id]
        self._fleet.start(name, [*where, "--state-dir", str(self._folder / name), *settings])

    def kill_worker(self, name: str) -> None:
        self._exits_expected[name] += 1
        self._fleet.kill(name)

    def tell_worker(self, name: str, line: str) -> None:
        self._fleet.tell(name, line)

    def expect_exit(self, name: str) -> None:
        """This worker is going to end by itself, and may."""
        self._exits_expected[name] += 1

    def stop_worker(self, name: str) -> None:
        """Let one worker leave in order. Returns when it has ended."""
        self._exits_expected[name] += 1
        self._fleet.stop([name], CLOSE_PATIENCE_S)

    def stop_workers(self) -> None:
        """Let all leave in order. The present owner of a task holds its final state."""
        self._last_owners = self.fleet_state.owners
        names = [worker.name for worker in self.fleet_state.alive]
        self._exits_expected.update(names)
        self._fleet.stop(names, CLOSE_PATIENCE_S)

    # --- what came of it --------------------------------------------------------------

    def findings(self) -> Findings:
        """Compare all orders with stores, changelogs and output. Call it once the workers have stopped."""
        self._output.follow(LOOK_INTERVAL_MS / 1000)
        group = self.settings.application_id
        folders = [self._folder / worker / group / task for task, worker in self._last_owners.items()]
        return compare(
            orders=islice(order_stream(self.settings.seed), self.orders_in),
            stores=read_stores(folders),
            changelogs=read_changelogs(self._servers, group, self.settings.partitions),
            rows=self.rows(),
        )
