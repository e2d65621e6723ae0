"""What the documentation's reference is generated from: every setting with its description.

The descriptions stand beside what they describe: below the fields of ``Config``. What must not live here: how a page
looks.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from inspect import getsource
from itertools import pairwise
from typing import Any

from kstreams_assign.config import (
    CHOICES,
    COST_RANGE,
    COSTS,
    RANGES,
    TOKEN_CHARACTERS_MAX,
    TOKEN_CHARACTERS_MIN,
    Config,
)


@dataclass(frozen=True, slots=True)
class Setting:
    """Describe one setting for a reference."""

    key: str
    default: str
    """As TOML; ``required`` where there is none, empty where the setting is off without a value."""
    allowed: str
    unit: str
    """Unit of a number; empty for other settings and for plain counts."""
    kafka: str
    """Kafka's name of the setting; empty for a setting that Kafka does not have."""
    description: str
    """One or a few sentences: the text below the field in ``Config``."""


_NOT_IN_KAFKA = frozenset(
    {
        *("process_name", "client", "warmup_queue", "early_probing", "early_probing_floor_ms", "assignor", "user_data"),
        *("group_membership_operation", "max_poll_bytes", "buffered_records_max", "http", "socket", "socket_token"),
    }
)
_KAFKA_NAMES: Mapping[str, str] = {
    "client_tags": "client.tag.*",
    "rack_aware_assignment_traffic_cost": "rack.aware.assignment.traffic_cost",
    "rack_aware_assignment_non_overlap_cost": "rack.aware.assignment.non_overlap_cost",
}
_ALLOWED: Mapping[str, str] = {
    "client": "a table of strings",
    "client_tags": "a table of strings",
    "rack_aware_assignment_tags": "a list of strings",
    "early_probing": "true or false",
    "warmup_queue": "true or false",
    "application_server": "HOST:PORT",
    "http": "HOST:PORT",
    "socket_token": f"a string of {TOKEN_CHARACTERS_MIN} to {TOKEN_CHARACTERS_MAX} characters",
    **dict.fromkeys(COSTS, str(COST_RANGE)),
    **{key: str(allowed) for key, allowed in RANGES.items()},
    **{key: ", ".join(choices) for key, choices in CHOICES.items()},
}
_UNITS: Mapping[str, str] = {"ms": "milliseconds", "bytes": "bytes", "lag": "offsets", "records": "records"}


def settings() -> tuple[Setting, ...]:
    """Return a description of every setting, in the order of ``Config``; the documentation is generated from it."""
    descriptions = _field_descriptions()
    return tuple(
        Setting(
            key=each.name,
            default=_default(each),
            allowed=_ALLOWED.get(each.name, "a non-empty string"),
            unit=_UNITS.get(each.name.removesuffix("_max").rpartition("_")[2], ""),
            kafka="" if each.name in _NOT_IN_KAFKA else _KAFKA_NAMES.get(each.name, each.name.replace("_", ".")),
            description=descriptions[each.name],
        )
        for each in fields(Config)
    )


def _default(setting: Field[Any]) -> str:
    if setting.default_factory is not MISSING:
        return "{}"
    if setting.default is MISSING:
        return "required"
    value = setting.default
    return "" if value is None else json.dumps(list(value) if isinstance(value, tuple) else value)


def _field_descriptions() -> dict[str, str]:
    """Return the string literal below each field of ``Config``, in one line."""
    (tree,) = ast.parse(getsource(Config)).body
    assert isinstance(tree, ast.ClassDef)
    return {
        statement.target.id: " ".join(str(below.value.value).split())
        for statement, below in pairwise(tree.body)
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    }
