"""The file or text with Java's ``Topology.describe()``, by which subtopologies get their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kstreams_assign.errors import ConfigError
from kstreams_assign.topology.flows import Flow
from kstreams_assign.topology.numbering import number_flows


def described_order(flows: Sequence[Flow], description: str | Path | None) -> Sequence[int | None]:
    """Return for each subtopology's number the index of its flow, or None for a subtopology without tasks.

    Without a description the order is that of ``flows``. Raises ``ConfigError`` for a description that cannot be read
    or that differs.
    """
    return range(len(flows)) if description is None else number_flows(flows, _text(description))


def _text(description: str | Path) -> str:
    if isinstance(description, str) and "\n" in description:
        return description
    try:
        return Path(description).read_text(encoding="utf-8")
    except (OSError, ValueError) as cause:  # no UTF-8, or a path with a null character
        why = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
        raise ConfigError(
            f"topology_description = {str(description)!r}: {Path(description).absolute()} cannot be read: {why}; "
            "give the text of Java's Topology.describe(), or a file with it"
        ) from cause
