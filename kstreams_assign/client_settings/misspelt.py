"""What an unknown key may mean: a misspelt key, a key of Kafka's own configuration, or a setting of the Kafka clients.

Pure. What must not live here: which keys there are (``config``, and the sidecar's file).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

from kstreams_assign.client_settings.names import PROPERTIES
from kstreams_assign.client_settings.rules import explain_refusal

_T = TypeVar("_T")

_CLIENT_PREFIXES = ("main.consumer.", "restore.consumer.", "global.consumer.", "consumer.", "producer.", "admin.")
"""Kafka Streams' prefixes of settings for one of its clients (``StreamsConfig``)."""

_KAFKA: Mapping[str, str] = {
    "task.assignor.class": "use assignor",
    "internal.task.assignor.class": "use assignor",
    "num.stream.threads": "a worker calls your functions on one thread; start more processes",
    "default.key.serde": "keys and values are bytes; your function decodes them",
    "default.value.serde": "keys and values are bytes; your function decodes them",
    "statestore.cache.max.bytes": "writes wait for the commit; set commit_interval_ms",
    "cache.max.bytes.buffering": "writes wait for the commit; set commit_interval_ms",
    "buffered.records.per.partition": "use max_poll_records or max_poll_bytes",
    "ssl.truststore.location": "name a PEM file: put 'ssl.ca.location' into client",
    "sasl.jaas.config": "put 'sasl.username' and 'sasl.password' into client",
    "topology.optimization": "name the source topic of a table in Store(..., source=)",
}
"""Settings of Kafka Streams in Java -> what to do here."""


def check_arguments(check: Callable[[Collection[str]], None]) -> Callable[[type[_T]], type[_T]]:
    """Return a decorator: a dataclass's constructor gives ``check`` the names of its arguments before it uses them.

    Python's own ``TypeError`` for an unknown or a missing argument would not say the fix.
    """

    def decorate(declaration: type[_T]) -> type[_T]:
        make, names = declaration.__init__, [each.name for each in fields(declaration)]  # type: ignore[arg-type]

        @wraps(make)
        def checked(self: _T, *values: Any, **arguments: Any) -> None:
            check([*names[: len(values)], *arguments])
            make(self, *values, **arguments)

        setattr(declaration, "__init__", checked)  # noqa: B010  # a type checker refuses the assignment
        return declaration

    return decorate


def unknown_key(key: str, known: Iterable[str]) -> str:
    """Return the text of an error for an unknown key: what it may mean, or which keys there are."""
    keys = sorted(known)
    hint = _hint(key, keys)
    return f"{key}: no such setting; {hint or 'allowed are ' + ', '.join(keys)}"


def _hint(key: str, keys: list[str]) -> str | None:
    if "application_id" in keys and (hint := _kafka_hint(key, keys)):
        return hint
    close = get_close_matches(key.replace(".", "_").replace("-", "_").lower(), keys, 1)
    return f"did you mean {close[0]}?" if close else None


def _kafka_hint(key: str, keys: list[str]) -> str | None:
    """Return what a key of Kafka's own configuration is called here, None if Kafka has no such key."""
    dotted = key.replace("_", ".").replace("-", ".")
    name = next((key.removeprefix(prefix) for prefix in _CLIENT_PREFIXES if key.startswith(prefix)), key)
    underscored = name.replace(".", "_")
    if key.startswith("client.tag."):
        return f"write client_tags = {{ {key.removeprefix('client.tag.')} = ... }}"
    if underscored in keys:
        return f"write {underscored}"
    if hint := _KAFKA.get(name, _KAFKA.get(dotted)):
        return hint
    client_name = next((candidate for candidate in (name, name.replace("_", ".")) if candidate in PROPERTIES), None)
    if client_name is None:
        return None
    return explain_refusal(client_name) or f"it is a setting of the Kafka clients: put {client_name!r} into client"
