"""A run from start to verdict: broker, load, workers, the faults, then healing, rest and the checks.

Violations (``checks``) and the times of faults (``schedule``) do not belong here. One thread starts, stops and kills
workers; the broker's faults have another, as its restart takes seconds.
"""

from __future__ import annotations

import heapq
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from itertools import count, pairwise
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from kstreams_assign.local import LocalBroker
from tests.chaos import reading
from tests.chaos.checks import EXACTLY_ONCE, account, entries_are_sound, group_resets, keys_of, violations
from tests.chaos.damage import damage
from tests.chaos.facts import Facts
from tests.chaos.load import Load
from tests.chaos.operator import Operator
from tests.chaos.processes import Group, Outages, Process, topics
from tests.chaos.schedule import Fault, Kind, Settings, schedule
from tests.chaos.stores import stores_left
from tests.worker.streams_settings import set_group

APPLICATION = "chaos"
LOOK_S = 0.1
SLOW_TURN_S, SLOW_AWAKE = 0.6, 0.25
STILL_S = 2.0
"""The group is at rest if it has not changed after this time."""
REST_LIMIT_S = 90.0
"""The time beyond ``--seconds`` after which a group without rest is a failure."""
END_LIMIT_S = 30.0
RESTART_S = 1.0
VIOLATIONS_MAX = 40


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Run:
    """A run in ``folder``, which has all data for an analysis."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = settings
        self.folder = folder
        self.faults: Counter[str] = Counter()
        self.unforeseen: list[str] = []
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._tick = Event()
        self._hands = ThreadPoolExecutor(1, "broker's faults")
        self._mending: list[Future[None]] = []
        self._outages = Outages()
        self._began = monotonic()
        self._broker = LocalBroker(data_dir=folder / "broker", controller_apart=True)

    def run(self) -> dict[str, Any]:
        """Run, and return the last line of the program. All processes end, also after an error."""
        with self._broker:
            self._began = monotonic()
            address = self._broker.bootstrap_servers
            inputs, outputs, _ = topics(APPLICATION)
            _create(address, [inputs, outputs], self.settings.partitions)
            if self.settings.protocol == "streams":
                set_group(
                    address,
                    APPLICATION,
                    session_timeout_ms=round(self.settings.session_timeout_s * 1000),
                    heartbeat_interval_ms=500,
                    num_standby_replicas=self.settings.standbys,
                )
            self._group = Group(self.settings, APPLICATION, address, self.folder)
            self._load = Load(address, inputs, self.settings)
            self._operator = Operator(APPLICATION, address, outputs)
            try:
                restless = self._play()
                return self._verdict(restless)
            finally:
                self._group.end()
                self._hands.shutdown()
                self._operator.close()

    @property
    def _now_s(self) -> float:
        return monotonic() - self._began

    def _play(self) -> tuple[str, ...]:
        self._load.start()
        for number in range(self.settings.workers):
            self._group.start(number)
        for fault in schedule(self.settings):
            self._at(fault.at_s, lambda fault=fault: self._happen(fault))
        self._until(self.settings.seconds - self.settings.quiet_s)
        self._heal()
        self._until(self.settings.seconds - self.settings.quiet_s / 2)
        self._load.stop()
        restless = self._come_to_rest()
        self._close()
        return restless

    # --- time ---------------------------------------------------------------------

    def _at(self, at_s: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._due, (at_s, next(self._numbers), call))

    def _until(self, end_s: float) -> None:
        """Carry out faults until ``end_s``. A worker that ends by itself is logged and started again."""
        while self._now_s < end_s:
            self._group.note_ends()
            self._mended(wait=False)
            while self._due and self._due[0][0] <= self._now_s:
                heapq.heappop(self._due)[2]()
            self._look_after()
            if self.settings.guarantee == EXACTLY_ONCE:
                for text in self._operator.turn():
                    self._say(f"operator: {text}")
            next_s = self._due[0][0] if self._due else end_s
            self._tick.wait(max(0.0, min(LOOK_S, next_s - self._now_s, end_s - self._now_s)))

    def _look_after(self) -> None:
        for process in list(self._group.current.values()):
            if not process.alive and not process.leaving and not process.killed:
                self._say(f"{process.writer} ended by itself with status {process.popen.returncode}")
                process.leaving = True  # looked after
                self._at(self._now_s + RESTART_S, lambda process=process: self._start_again(process))

    # --- faults -------------------------------------------------------------------

    def _happen(self, fault: Fault) -> None:
        process = self._group.current.get(fault.target) if isinstance(fault.target, int) else None
        mending = any(not bounce.done() for bounce in self._mending)
        awaited = fault.kind is Kind.ADD and process is not None and process.alive and process.leaving
        if awaited and self._now_s < self.settings.seconds - self.settings.quiet_s:
            # Wait until the old process has ended: later faults rely on the new one.
            self._at(self._now_s + RESTART_S, lambda: self._happen(fault))
            return
        if (why := _out_of_place(fault, process, mending=mending)) is not None:
            self._say(f"{fault}: skipped, {why}")
            return
        self._say(f"{fault}" + (f" ({process.writer})" if process and process.alive else ""))
        self.faults[fault.kind] += 1
        if fault.kind is Kind.BROKER:
            self._bounce_broker(fault)
        elif fault.kind is Kind.ADD:
            assert isinstance(fault.target, int)
            self._group.start(fault.target)
        else:
            assert process is not None
            _WORKER_FAULTS[fault.kind](self, fault, process)

    def _kill(self, fault: Fault, process: Process) -> None:
        self._group.kill(process)
        self._at(fault.at_s + fault.lasts_s, lambda: self._start_again(process))

    def _wipe(self, fault: Fault, process: Process) -> None:
        self._kill(fault, process)
        shutil.rmtree(self._group.state_dir(process.number), ignore_errors=True)

    def _damage(self, fault: Fault, process: Process) -> None:
        self._kill(fault, process)
        done = damage(self._group.state_dir(process.number), fault.salt)
        self._group.harmed.add(process.number)
        self._say(f"          {'; '.join(done) or 'nothing to damage'}")

    def _start_again(self, process: Process) -> None:
        if self._group.current[process.number] is process:
            self._say(f"worker {process.number} starts again as {self._group.start(process.number).writer}")

    def _sleep(self, fault: Fault, process: Process) -> None:
        self._group.stop(process)
        self._at(fault.at_s + fault.lasts_s, lambda: self._group.go_on(process))

    def _slow(self, fault: Fault, process: Process) -> None:
        at_s, end_s = fault.at_s, fault.at_s + fault.lasts_s
        while at_s < end_s:
            self._at(at_s, lambda: self._group.stop(process))
            self._at(at_s + SLOW_TURN_S * (1 - SLOW_AWAKE), lambda: self._group.go_on(process))
            at_s += SLOW_TURN_S

    def _jump(self, _fault: Fault, process: Process) -> None:
        process.popen.send_signal(signal.SIGUSR2)

    def _drain(self, _fault: Fault, process: Process) -> None:
        self._group.leave(process, signal.SIGUSR1)

    def _leave(self, _fault: Fault, process: Process) -> None:
        self._group.leave(process, signal.SIGTERM)

    def _bounce_broker(self, fault: Fault) -> None:
        """Kill and restart the broker on another thread, as its restart takes seconds."""

        def bounce() -> None:
            with self._outages.outage():
                self._broker.kill()
                self._tick.wait(fault.lasts_s)
                self._broker.restart()
            self._say("the broker is back")

        self._mending.append(self._hands.submit(bounce))

    def _mended(self, *, wait: bool) -> None:
        """Raise the error of a failed restart: without a broker the rest of the run is useless."""
        for mending in self._mending:
            if wait or mending.done():
                mending.result()

    # --- mending, rest, end -------------------------------------------------------

    def _heal(self) -> None:
        self._say("healing: all faults end, stopped workers continue, killed ones start again")
        self._mended(wait=True)
        pending = [call for _, _, call in sorted(self._due, key=lambda due: due[:2])]
        self._due.clear()
        for call in pending:  # ends of faults, and workers that wait for their start; the schedule is over
            call()
        self._group.wake()

    def _come_to_rest(self) -> tuple[str, ...]:
        """Wait until the group is at rest; if it is not in time, return why."""
        limit_s, before = self.settings.seconds + REST_LIMIT_S, None
        while True:
            leaving = [process.writer for process in self._group.all if process.leaving and process.alive]
            members = len(self._group.members()) + len(leaving)
            seen = reading.look(self._broker.bootstrap_servers, APPLICATION, topics(APPLICATION)[0], members)
            reasons = (*seen.reasons, *(f"{writer} was asked to leave and is still there" for writer in leaving))
            if self._now_s > limit_s or (not reasons and before == seen.generation):
                self._say("at rest" if not reasons else f"not at rest: {'; '.join(reasons)}")
                return reasons
            before = seen.generation
            self._until(self._now_s + STILL_S)

    def _close(self) -> None:
        """Ask all workers to end; kill those that do not, which is a violation."""
        living = [process for process in self._group.all if process.alive]
        for process in living:
            process.closed_with_all = not process.leaving
            self._group.leave(process, signal.SIGTERM)
        end_s = self._now_s + END_LIMIT_S
        while any(process.alive for process in living) and self._now_s < end_s:
            self._tick.wait(LOOK_S)
        for process in living:
            if process.alive:
                self.unforeseen.append(f"{process.writer} did not end within {END_LIMIT_S:.0f} s of SIGTERM")
                self._group.kill(process)

    def _verdict(self, restless: tuple[str, ...]) -> dict[str, Any]:
        self._say("checking the results")
        facts = self._facts(restless)
        wrong = [*violations(facts), *self.unforeseen, *self._load.lost]
        sound = not entries_are_sound(facts)
        result = account(facts) if sound else None
        return {
            "seed": self.settings.seed,
            "seconds": round(self._now_s, 1),
            "guarantee": self.settings.guarantee,
            "protocol": self.settings.protocol,
            "faults": dict(sorted(self.faults.items())),
            "inputs": len(facts.inputs),
            "lost": len(result.lost) if result else None,
            "duplicated": len(result.duplicated) if result else None,
            "overwritten_by_sleepers": len(result.overwritten) if result else None,
            "double_owners": sum(text.startswith("each_task_has_a_single_owner") for text in wrong),
            "rebalances": sum(after.number != before.number for before, after in pairwise(facts.generations)),
            "group_begun_anew": group_resets(facts),
            "damaged_stores_found_by_the_checker": sum(bool(store.damage) for store in facts.stores),
            "aborted_transactions": facts.aborted_transactions,
            "hanging_transactions_ended": len(self._operator.ended),
            "converged": not restless,
            "violations": wrong[:VIOLATIONS_MAX]
            + [f"and {len(wrong) - VIOLATIONS_MAX} more"] * (len(wrong) > VIOLATIONS_MAX),
        }

    def _facts(self, restless: tuple[str, ...]) -> Facts:
        address = self._broker.bootstrap_servers
        inputs, outputs, changelog = topics(APPLICATION)
        commits, generations = reading.group_records(address, APPLICATION, inputs)
        writes = reading.writes(address, changelog)
        return Facts(
            guarantee=self.settings.guarantee,
            warmups_max=self.settings.warmups_max,
            acknowledged=frozenset(self._load.acknowledged),
            inputs=reading.inputs(address, inputs),
            writes=writes,
            rows=reading.rows(address, outputs),
            commits=commits,
            generations=generations,
            exits=tuple(process.exit(self._outages) for process in self._group.all),
            slept=self._group.slept(),
            aborted_transactions=reading.aborted_transactions(address),
            stores=tuple(stores_left(self._group, APPLICATION, keys_of(writes))),
            changelog_ends=reading.ends(address, changelog),
            restless=restless,
            protocol=self.settings.protocol,
        )

    def _say(self, text: str) -> None:
        line = f"[{self._now_s:6.1f}] {text}"
        log(line)
        with (self.folder / "run.log").open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


_WORKER_FAULTS: dict[Kind, Callable[[Run, Fault, Process], None]] = {
    Kind.KILL: Run._kill,
    Kind.WIPE: Run._wipe,
    Kind.DAMAGE: Run._damage,
    Kind.SLEEP: Run._sleep,
    Kind.NAP: Run._sleep,
    Kind.SLOW: Run._slow,
    Kind.JUMP: Run._jump,
    Kind.DRAIN: Run._drain,
    Kind.CLOSE: Run._leave,
}


def _out_of_place(fault: Fault, process: Process | None, *, mending: bool) -> str | None:
    """Return why a fault cannot happen now, as a busy machine is late; None if it can.

    ``process``: the newest of its number. ``mending``: the broker is not back from its last fault; queued outages would
    never end.
    """
    if fault.kind is Kind.BROKER:
        return "the broker is not back from its last fault" if mending else None
    if fault.kind is Kind.ADD:
        return "the last worker of this number still runs" if process is not None and process.alive else None
    if process is None or not process.alive or process.leaving:
        return "the worker does not run"
    if fault.kind is Kind.JUMP and not process.events.exists():
        return "the worker is still starting"
    return None


def _create(broker: str, names: list[str], partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker})  # has to outlive its answers
    made = admin.create_topics([NewTopic(name, partitions, 1) for name in names])
    for future in made.values():
        future.result()


def planned(settings: Settings) -> str:
    """Return the settings and the schedule as text."""
    facts = "\n".join(f"  {key} = {value}" for key, value in asdict(settings).items())
    return f"seed {settings.seed}\n{facts}\n" + "\n".join(map(str, schedule(settings)))
