"""Whose subtopology is number 0: the order in which the program lists them, or the order that Java's description tells.

Java numbers subtopologies in the order in which their first nodes were added (``InternalTopologyBuilder.makeNodeGroups``), and a
global store takes a number too. A list of handlers in another order would mix up state without a sound, so whoever joins a Java
application's group gives the text of ``Topology.describe()`` and each handler gets the number of the subtopology that reads the
same topics. A difference is an error that names it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kstreams_assign.errors import ConfigError
from kstreams_assign.topology.described import REPARTITION, DescribedSubtopology, internal_topics, read_description
from kstreams_assign.topology.flows import Flow

NAME = "topology_description"


def number_flows(flows: Sequence[Flow], description: str) -> tuple[int | None, ...]:
    """For each of the description's subtopologies the index of its flow; None for that of a global store, which has no tasks.

    Raises ``ConfigError`` naming the subtopology, and what is read or stored on one side only.
    """
    listed = read_description(description, NAME)
    internal = internal_topics(listed)
    left = dict(enumerate(flows))
    order: list[int | None] = []
    for number, one in enumerate(listed):
        if one.is_global or not (one.topics or one.patterns):
            order.append(None)
            continue
        index = _fitting(number, one, _reads(one, internal), left)
        del left[index]
        order.append(index)
    if left:
        names = "; ".join(_listed(flow.names) for flow in left.values())
        raise ConfigError(f"{NAME}: no subtopology of it reads {names}, as a subtopology here does; all must be alike")
    return tuple(order)


def order_flows(flows: Sequence[Flow], order: Sequence[int | None]) -> tuple[Flow, ...]:
    """The flows as ``numbered`` says; one that reads nothing for a subtopology without tasks."""
    return tuple(Flow.of(()) if index is None else flows[index] for index in order)


def _reads(one: DescribedSubtopology, internal: Collection[str]) -> frozenset[str]:
    """The topics as a program names them: internal ones without their ending."""
    return frozenset([*(t.removesuffix(REPARTITION) if t in internal else t for t in one.topics), *one.patterns])


def _fitting(number: int, one: DescribedSubtopology, reads: frozenset[str], flows: dict[int, Flow]) -> int:
    fits = next((index for index, flow in flows.items() if flow.names == reads), None)
    if fits is None:
        nearest = max(flows.values(), key=lambda flow: len(flow.names & reads), default=None)
        ours = nearest.names if nearest is not None and nearest.names & reads else frozenset[str]()
        said = f"the one here that is nearest reads {_listed(ours)}" if ours else "none here reads any of it"
        raise ConfigError(f"{NAME}: subtopology {number} reads {_listed(reads)}; {said}")
    _refuse_other_stores(number, frozenset(one.stores), frozenset(s.name for s in flows[fits].shape.stores))
    return fits


def _refuse_other_stores(number: int, told: frozenset[str], ours: frozenset[str]) -> None:
    if told != ours:
        missing, strange = _listed(told - ours), _listed(ours - told)
        raise ConfigError(f"{NAME}: subtopology {number}: its stores that lack here: {missing}; here alone: {strange}")


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "none"
