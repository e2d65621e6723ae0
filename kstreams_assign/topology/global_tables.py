"""``GlobalTable``: a topic that every process holds whole, as a program declares it, and the checks of all of them.

How a table is kept (``worker``) and when it may be read (``engine.global_tables``) do not belong here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields

from kstreams_assign.client_settings import check_arguments, unknown_key
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import TopologyShape, refuse_no_bool

NAME_CHARACTERS_MAX = 249
_NAME = re.compile(r"[a-zA-Z0-9._-]+")
"""Kafka's rule for the names of stores (``Named.validate``)."""


def _refuse_unknown_arguments(arguments: Collection[str]) -> None:
    known = {each.name for each in fields(GlobalTable)}
    for key in arguments:
        if key not in known:
            raise ConfigError(f"GlobalTable: {unknown_key(key, known)}")


@check_arguments(_refuse_unknown_arguments)
@dataclass(frozen=True, slots=True)
class GlobalTable:
    """Declare a table of a whole topic that every process holds (Java: ``GlobalKTable``, ``addGlobalStore``).

    - ``name``: name in ``task.global_table(name)``.
    - ``topic``: topic whose newest value of each key is the table; its ``cleanup.policy`` should be ``compact``.
    - ``timestamped``: whether the time of each record is kept beside its value.

    Raises ``ConfigError`` for an argument that cannot be used.
    """

    name: str
    """Name; also the folder of the table in the state directory."""
    topic: str
    """Topic: each process reads all its partitions, outside of the group. A record without a value deletes its key; one
    without a key is passed over."""
    timestamped: bool = False
    """Whether the time of each record is kept, as Java's DSL does (``Stores.timestampedKeyValueStoreBuilder``)."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name) or self.name in {".", ".."}:
            raise ConfigError(f"global table: name = {self.name!r}: must be of letters, digits, '.', '_' and '-'")
        if len(self.name) > NAME_CHARACTERS_MAX:
            raise ConfigError(
                f"global table: name = {self.name!r}: has {len(self.name)} characters; at most {NAME_CHARACTERS_MAX} "
                "are allowed"
            )
        if not isinstance(self.topic, str) or not self.topic:
            raise ConfigError(f"global table {self.name}: topic = {self.topic!r}: must be the name of a topic")
        refuse_no_bool(f"global table {self.name}: timestamped", self.timestamped)


def checked_global_tables(tables: object, shape: TopologyShape) -> tuple[GlobalTable, ...]:
    """Return the tables of an application.

    Raises ``TypeError`` for what is no list of ``GlobalTable``, ``ConfigError`` for a name or a topic that two tables
    have, a name of a store, and a repartition topic.
    """
    if not isinstance(tables, Sequence) or isinstance(tables, str | bytes):
        raise TypeError(f"global_tables is a {type(tables).__name__}: must be a list of GlobalTable")
    for number, table in enumerate(tables):
        if not isinstance(table, GlobalTable):
            raise TypeError(
                f"global_tables[{number}] is a {type(table).__name__}: must be a GlobalTable; write "
                'GlobalTable("name", topic="topic")'
            )
    _refuse_two("name", [table.name for table in tables])
    _refuse_two("topic", [table.topic for table in tables])
    stores = {store.name for sub in shape.subtopologies for store in sub.stores}
    for table in tables:
        if table.name in stores:
            raise ConfigError(
                f"global table {table.name}: is also the name of a store; a name must be unique in the application"
            )
        if table.topic in shape.repartition_topics:
            raise ConfigError(
                f"global table {table.name}: topic = {table.topic!r}: is a repartition topic, whose records are "
                "deleted once they are processed; name another topic"
            )
    return tuple(tables)


def _refuse_two(what: str, values: Sequence[str]) -> None:
    if twice := sorted({value for value in values if values.count(value) > 1}):
        raise ConfigError(f"global tables: {what} used twice: {', '.join(twice)}; each table must have its own {what}")


POLICY = "cleanup.policy"


def policy_warnings(tables: Sequence[GlobalTable], policies: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return a warning for each table whose topic deletes records by their age or number. ``policies``: by topic."""
    return tuple(
        f"global table {table.name}: {POLICY} of topic {table.topic} is {policy}: values that are older than its "
        f"retention are missing from a table that is read from the start; set it to compact"
        for table in tables
        if (policy := policies.get(table.topic)) is not None and "delete" in policy.replace(" ", "").split(",")
    )
