"""Number subtopologies: in the order in which the program lists them, or as Java's description numbers them.

Java numbers subtopologies in the order in which their first nodes were added
(``InternalTopologyBuilder.makeNodeGroups``); a global store takes a number too. Another order here would mix up the
state of tasks without an error. So a member that joins a Java application's group gets the text of
``Topology.describe()``, and each handler takes the number of the subtopology that reads the same topics. A difference
is an error that names both sides.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kstreams_assign.errors import ConfigError
from kstreams_assign.topology.described import REPARTITION, DescribedSubtopology, internal_topics, read_description
from kstreams_assign.topology.flows import Flow

NAME = "topology_description"


def number_flows(flows: Sequence[Flow], description: str) -> tuple[int | None, ...]:
    """Return, for each described subtopology, the index of its flow; None for a global store, which has no tasks.

    Raises ``ConfigError`` naming the subtopology and the topics or stores that exist on one side only.
    """
    listed = read_description(description, NAME)
    internal = internal_topics(listed)
    left = dict(enumerate(flows))
    order: list[int | None] = []
    for number, subtopology in enumerate(listed):
        if subtopology.is_global or not (subtopology.topics or subtopology.patterns):
            order.append(None)
            continue
        index = _fitting(number, subtopology, _reads(subtopology, internal), left)
        del left[index]
        order.append(index)
    if left:
        names = "; ".join(_listed(flow.names) for flow in left.values())
        raise ConfigError(
            f"{NAME}: no subtopology reads {names}, as a subtopology here does; both must read the same topics"
        )
    return tuple(order)


def order_flows(flows: Sequence[Flow], order: Sequence[int | None]) -> tuple[Flow, ...]:
    """Return the flows in the order of ``number_flows``; an empty flow stands for a subtopology without tasks."""
    return tuple(Flow.of(()) if index is None else flows[index] for index in order)


def _reads(subtopology: DescribedSubtopology, internal: Collection[str]) -> frozenset[str]:
    """Return the topics as a program names them: repartition topics without their suffix."""
    return frozenset(
        [*(t.removesuffix(REPARTITION) if t in internal else t for t in subtopology.topics), *subtopology.patterns]
    )


def _fitting(number: int, subtopology: DescribedSubtopology, reads: frozenset[str], flows: dict[int, Flow]) -> int:
    fits = next((index for index, flow in flows.items() if flow.names == reads), None)
    if fits is None:
        nearest = max(flows.values(), key=lambda flow: len(flow.names & reads), default=None)
        ours = nearest.names if nearest is not None and nearest.names & reads else frozenset[str]()
        hint = f"the closest here reads {_listed(ours)}" if ours else "no subtopology here reads any of these"
        raise ConfigError(f"{NAME}: subtopology {number} reads {_listed(reads)}; {hint}")
    _refuse_other_stores(number, frozenset(subtopology.stores), frozenset(s.name for s in flows[fits].shape.stores))
    return fits


def _refuse_other_stores(number: int, theirs: frozenset[str], ours: frozenset[str]) -> None:
    if theirs != ours:
        missing, strange = _listed(theirs - ours), _listed(ours - theirs)
        raise ConfigError(
            f"{NAME}: subtopology {number}: stores only in the description: {missing}; stores only here: {strange}; "
            f"both must have the same stores"
        )


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "none"
