"""Many ``GroupMember``s in one process, without records: ``python -m bench.large_group.host BROKER SETTINGS``.

Standard input takes words, one a line: ``add NUMBER``, ``remove NUMBER``, ``usage``; its end ends all members. Standard
output gets a JSON line for each event of a member, with the time in seconds since 1970.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
import threading
import time
from pathlib import Path
from uuid import UUID

from bench.processes import RSS_UNIT
from kstreams_assign import Config, Event, GroupMember
from kstreams_assign.errors import BrokerUnavailable
from kstreams_assign.events import AssignedEvent, DecisionEvent, JoiningEvent, LostEvent
from kstreams_assign.model import Store, SubtopologyShape, TaskId
from kstreams_assign.worker.group_member import Assignment, CommitDue, Lost

APPLICATION, TOPIC, STORE = "large-group", "large-group-in", "counts"
TOPOLOGY = (SubtopologyShape((TOPIC,), (Store(STORE),)),)
TURN_S, TURN_OF_MEMBER_S = 0.01, 0.0005
"""How long one thread rests after it has asked all members in vain: longer for many, or it would take a core."""
SWITCH_S = 0.1
"""Of so many threads, those that wait for the interpreter would wake each 5 ms otherwise: that alone takes a core."""
RECORDS = 1
"""In each changelog: a new owner has to restore it first."""


def main(words: list[str]) -> None:
    """Obey until standard input ends."""
    broker, settings = words
    sys.setswitchinterval(SWITCH_S)
    host = Host(Config(application_id=APPLICATION, bootstrap_servers=broker, **json.loads(settings)))
    threading.Thread(target=host.obey, daemon=True).start()
    host.run()


class Host:
    """The members of this process. One thread makes and ends them, another answers their questions."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._members: dict[int, GroupMember] = {}
        self._held: dict[int, frozenset[TaskId]] = {}
        self._lock = threading.Lock()
        self._begun = threading.Event()
        self._ended = False

    # --- from standard input ------------------------------------------------------------

    def obey(self) -> None:
        """Carry out the words of standard input."""
        for line in sys.stdin:
            word, _, number = line.strip().partition(" ")
            if word == "add":
                self._add(int(number))
            elif word == "remove":
                self._remove(int(number))
            else:
                usage = resource.getrusage(resource.RUSAGE_SELF)
                rss_mib = usage.ru_maxrss / RSS_UNIT
                self._say("usage", -1, cpu_s=usage.ru_utime + usage.ru_stime, rss_mib=rss_mib, threads=_threads())
        for each in list(self._members):
            self._remove(each)
        self._ended = True
        self._begun.set()

    def _add(self, number: int) -> None:
        """Make a member; a broker that is busy with others is asked again."""
        while number not in self._members:
            try:
                member = GroupMember(
                    self._config, TOPOLOGY, UUID(int=number + 1), on_event=lambda event: self._hear(number, event)
                )
            except BrokerUnavailable as cause:
                self._say("warning", number, text=str(cause))
            else:
                self._members[number] = member.__enter__()
                self._begun.set()

    def _remove(self, number: int) -> None:
        self._members.pop(number).__exit__(None, None, None)

    # --- members ------------------------------------------------------------------------

    def run(self) -> None:
        """Answer the members' questions until all have left."""
        self._begun.wait()
        while not self._ended:
            members = list(self._members.items())
            news = sum(self._turn(number, member, 0) for number, member in members)
            if members and not news:
                self._turn(*members[0], max(TURN_S, len(members) * TURN_OF_MEMBER_S))

    def _turn(self, number: int, member: GroupMember, timeout_s: float) -> bool:
        match member.poll(timeout_s):
            case None:
                return False
            case CommitDue():
                member.ready_to_join()
            case Assignment() as assignment:
                copies = assignment.standby | assignment.warmup
                held = copies | assignment.active.keys()
                for task in self._held.get(number, frozenset()) - held:
                    member.forget(task)
                self._held[number] = held
                for task in assignment.active:
                    member.running(task)
                for task in copies:
                    member.at(task, dict.fromkeys(member.changelogs(task).values(), RECORDS))
                member.let_go()
            case Lost():
                for task in self._held.pop(number, ()):
                    member.forget(task)
        return True

    def _hear(self, number: int, event: Event) -> None:
        match event:
            case JoiningEvent():
                self._say("joining", number, reason=event.reason)
            case AssignedEvent():
                again = event.follow_up or event.next_probe_ms is not None
                self._say(
                    "assigned",
                    number,
                    generation=event.generation,
                    active=len(event.active),
                    warmup=len(event.warmup),
                    again=again,
                )
            case DecisionEvent():
                self._say("decision", number, kind=event.kind, members=event.members, changed=len(event.changed))
            case LostEvent():
                self._say("lost", number, reason=event.reason)
            case _ if event.level >= logging.WARNING:
                self._say("warning", number, text=f"{event.name}: {event}"[:300])

    def _say(self, what: str, number: int, **facts: object) -> None:
        with self._lock:
            print(json.dumps({"at": time.time(), "what": what, "member": number, **facts}), flush=True)


def _threads() -> int:
    """Return how many threads this process has, those of librdkafka included; 0 where the system does not say."""
    return len(list(Path("/proc/self/task").glob("*")))


if __name__ == "__main__":
    main(sys.argv[1:])
