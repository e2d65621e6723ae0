"""``Worker``: a member whose records go to the functions of a topology.

What must not live here: what runs them (``runtime``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kstreams_assign.config import Config
from kstreams_assign.events import EventListener
from kstreams_assign.tasks.record import Record
from kstreams_assign.topology.global_tables import GlobalTable
from kstreams_assign.topology.numbering import order_flows
from kstreams_assign.worker.description import described_order
from kstreams_assign.worker.due_calls import TimedFunctions
from kstreams_assign.worker.labour import Functions
from kstreams_assign.worker.runtime import Runtime
from kstreams_assign.worker.task import Subtopology, Task


class Worker(Runtime):
    """Process records with the functions of a topology, as a member of a Kafka Streams group (Java: ``KafkaStreams``).

    The function of a ``Subtopology`` takes a task and its next records::

        def count(task: Task, records: Sequence[Record]) -> None: ...


        config = Config(application_id="word-count", bootstrap_servers="localhost:9092")
        Worker(config, [Subtopology(count, sources=["words"], stores=["counts"])]).run()

    A subtopology's number is its place in ``topology``. With ``topology_description`` (the text of Java's
    ``Topology.describe()``, or a file with it) it is the number of the subtopology there that reads the same topics.
    ``global_tables`` are topics that every process holds whole, for ``task.global_table`` and ``worker.global_table``.
    ``on_event`` gets the events of ``kstreams_assign.events``. A worker runs once: ``run`` blocks until ``close``,
    ``drain`` or an error. The constructor locks ``state_dir``. Raises ``ConfigError``, ``StateDirectoryLocked`` and
    ``StateError``.
    """

    def __init__(
        self,
        config: Config,
        topology: Sequence[Subtopology],
        *,
        global_tables: Sequence[GlobalTable] = (),
        topology_description: str | Path | None = None,
        on_event: EventListener | None = None,
    ) -> None:
        _refuse_other_types(config, topology)
        flows = [sub.flow for sub in topology]
        order = described_order(flows, topology_description)
        ordered = order_flows(flows, order)
        processes = [_nothing if n is None else topology[n].process for n in order]
        timed = [TimedFunctions() if n is None else timed_functions(topology[n]) for n in order]
        functions = Functions(processes, config, [flow.on_error for flow in ordered], timed=timed)
        super().__init__(config, ordered, functions, on_event, global_tables)


def timed_functions(subtopology: Subtopology) -> TimedFunctions:
    """Return the functions of a subtopology that no record causes to run."""
    return TimedFunctions(subtopology.init, subtopology.timers)


def _refuse_other_types(config: object, topology: object) -> None:
    if isinstance(config, Mapping):
        raise TypeError(f"config is a {type(config).__name__}: write Config(**settings)")
    if not isinstance(config, Config):
        raise TypeError(f"config is a {type(config).__name__}: must be a Config; write Worker(Config(...), [...])")
    refuse_other_topologies(topology, "Worker(config, [Subtopology(...)])")


def refuse_other_topologies(topology: object, call: str) -> None:
    """Raise ``TypeError`` for a topology that is no list of ``Subtopology``; ``call`` shows how to write it."""
    if isinstance(topology, Subtopology):
        raise TypeError(f"topology is one Subtopology: must be a list; write {call}")
    if not isinstance(topology, Sequence):
        raise TypeError(f"topology is a {type(topology).__name__}: must be a list of Subtopology")
    for number, sub in enumerate(topology):
        if not isinstance(sub, Subtopology):
            raise TypeError(
                f"topology[{number}] is a {type(sub).__name__}: must be a Subtopology; write "
                "Subtopology(function, sources=[...])"
            )


def _nothing(_task: Task, _records: Sequence[Record]) -> None:
    """Do nothing: for a subtopology of the description that has no counterpart here."""
