"""A member that behaves as Kafka Streams' own, so that a simulated group can be mixed: what it does differently.

A Java member is a ``Kind`` of the one simulated process. As in ``StreamsPartitionAssignor``, ``StreamThread`` and
``ConsumerCoordinator`` of Kafka:

- It writes no trailer and reads none, also as the leader. So it decides with ``high_availability``, without the warm-up
  queue and without drains, and no follower of it hears of a follow-up or of a probe that is not its own.
- It asks for a rebalance after it has revoked partitions (KIP-429; every client does, see ``client``), when
  ``next_rebalance_ms`` is due, of which 0 is obeyed at once, and when its own endpoint is not in the host map. It comes
  back to the group with another port. Otherwise its heartbeats tell it.
- It neither publishes progress nor reads what others publish (early probing).
- It closes without leaving the group (``internal.leave.group.on.close`` is false), so its member stays until the
  session ends. It can neither drain nor announce a restart, so both only close it.
- It has no write lease. Exactly once, its transactions name its generation, which is enough. At least once, a real
  Java member may write to a changelog after it has lost the task; that is not simulated.

Everything else is ours, in the place of Java's: tasks, restores, commits, offset sums, the state cleaner, and the
habits of the Kafka client. These habits of Java are not simulated: it does not commit before it joins; it locks the
folders that it reports one by one, where ours takes the mutex and reports again if the cleaner breaks in; it asks for a
rebalance when it finds the stores of an active task damaged; its older releases write older versions of user-data; a
static member keeps its tasks where a generation began without it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kstreams_assign.group.assignor_choice import JAVA_ASSIGNOR
from kstreams_assign.group.dialects import APACHE, Dialect, MemberReport
from kstreams_assign.wire import AssignmentInfo, FutureSubscription


def _read_report(data: bytes) -> MemberReport | FutureSubscription:
    report = APACHE.read_report(data)
    return report if isinstance(report, FutureSubscription) else replace(report, trailer=None, trailer_warning=None)


def _write_report(report: MemberReport) -> bytes:
    return APACHE.write_report(replace(report, trailer=None))


def _read_assignment(data: bytes) -> AssignmentInfo:
    return replace(APACHE.read_assignment(data), trailer=None, trailer_warning=None)


def _write_assignments(infos: Iterable[AssignmentInfo]) -> list[bytes]:
    return APACHE.write_assignments(replace(info, trailer=None) for info in infos)


WITHOUT_TRAILER: Dialect = replace(
    APACHE,
    read_report=_read_report,
    write_report=_write_report,
    read_assignment=_read_assignment,
    write_assignments=_write_assignments,
)
"""Apache's user-data as Kafka Streams reads and writes it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How the members of a kind behave. ``letter``: the first of their names in logs.

    ``assignor`` and ``queues_warmups``: None: as the scenario says. ``leaves``: it leaves the group when it closes.
    ``leased``: its writes end with its session. ``moves``: each start has an endpoint of its own.
    """

    letter: str
    dialect: Dialect
    assignor: str | None
    queues_warmups: bool
    probes_early: bool
    drains: bool
    announces_restarts: bool
    leaves: bool
    leased: bool
    moves: bool


PYTHON = Kind(
    "P",
    APACHE,
    None,
    queues_warmups=True,
    probes_early=True,
    drains=True,
    announces_restarts=True,
    leaves=True,
    leased=True,
    moves=False,
)
JAVA = Kind(
    "J",
    WITHOUT_TRAILER,
    JAVA_ASSIGNOR,
    queues_warmups=False,
    probes_early=False,
    drains=False,
    announces_restarts=False,
    leaves=False,
    leased=False,
    moves=True,
)
