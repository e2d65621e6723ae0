"""The file or text with Java's ``Topology.describe()``, by which subtopologies get their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kstreams_assign.errors import ConfigError
from kstreams_assign.topology.flows import Flow
from kstreams_assign.topology.numbering import number_flows


def described_order(flows: Sequence[Flow], told: str | Path | None) -> Sequence[int | None]:
    """For each number of a subtopology the index of its flow, None for one without tasks.

    As listed where no description is given. Raises ``ConfigError`` for one that cannot be read or that differs.
    """
    return range(len(flows)) if told is None else number_flows(flows, _text(told))


def _text(told: str | Path) -> str:
    if isinstance(told, str) and "\n" in told:
        return told
    try:
        return Path(told).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        raise ConfigError(f"topology_description = {str(told)!r}: neither a description nor a file: {cause}") from cause
