"""Topics that a command creates, read from its arguments: names with numbers of partitions.

What must not live here: creating them (``adapters.confluent``), and internal topics, whose numbers follow from a
topology (``internal``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kstreams_assign.errors import ConfigError
from kstreams_assign.topology.internal import TOPIC_NAME

PARTITIONS_MAX = 10_000
"""Kafka creates no more at once."""

_TOPIC = re.compile(r"(?P<name>[^:]*)(?::(?P<partitions>[0-9]{1,5}))?", re.DOTALL)


def read_new_topics(texts: Iterable[str], argument: str) -> dict[str, int]:
    """Return the number of partitions of each topic; 1 where a text names none.

    ``argument`` is how the command calls such a text. Raises ``ConfigError`` for a topic that no broker would create.
    """
    topics: dict[str, int] = {}
    for text in texts:
        topic = _TOPIC.fullmatch(text)
        partitions = int(topic["partitions"] or 1) if topic else 0
        if topic is None or partitions < 1:
            raise ConfigError(f"{argument} {text}: must be NAME or NAME:PARTITIONS, as in words:2")
        name = topic["name"]
        refuse_wrong_name(name, f"{argument} {text}")
        if name in topics:
            raise ConfigError(f"{argument} {text}: {name!r} is given more than once; give each topic once")
        topics[name] = partitions
    if sum(topics.values()) > PARTITIONS_MAX:
        raise ConfigError(f"{argument}: {sum(topics.values()):,} partitions in all; allowed are {PARTITIONS_MAX:,}")
    return topics


def refuse_wrong_name(name: str, where: str) -> None:
    """Raise ``ConfigError`` for a name that no topic can have; ``where`` is the argument that holds it."""
    if not TOPIC_NAME.fullmatch(name):
        raise ConfigError(
            f"{where}: {name!r} cannot be the name of a topic; allowed are 1 to 249 letters, digits, '.', '_' and '-'"
        )
