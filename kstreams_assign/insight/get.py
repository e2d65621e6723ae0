"""The value of a key from outside: the processes of a group, one query, and what is printed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kstreams_assign.config import read_endpoint
from kstreams_assign.errors import ConfigError, StoreNotAvailable
from kstreams_assign.insight.fetch import group_reader
from kstreams_assign.insight.record_text import json_value, readable
from kstreams_assign.observe.decoded import decode_group
from kstreams_assign.observe.snapshot import GroupSnapshot
from kstreams_assign.observe.streams_snapshot import StreamsSnapshot
from kstreams_assign.query.client import QueryClient

RETRY_MS = 1_000


@dataclass(frozen=True, slots=True)
class Asked:
    """The key that the caller wants."""

    application_id: str
    store: str
    key: bytes
    max_lag: int | None
    partition: int | None


def key_bytes(text: str, *, hexadecimal: bool) -> bytes:
    """Return a key as bytes. Raises ``ConfigError`` for a text that is not hexadecimal."""
    if not hexadecimal:
        return os.fsencode(text)
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ConfigError(f"KEY = {text!r}: must be pairs of hexadecimal digits with --hex") from None


def members_of(
    bootstrap_servers: str, application_id: str, client: Mapping[str, str], timeout_s: float
) -> Sequence[str]:
    """Return ``application_server`` of the group's processes. Raises ``StoreNotAvailable`` if none reports one."""
    with group_reader(bootstrap_servers, client, timeout_s) as reader:
        seen = reader.look(application_id)
    endpoints = sorted(_streams_endpoints(seen) if isinstance(seen, StreamsSnapshot) else _endpoints(seen))
    if not endpoints:
        raise StoreNotAvailable(
            f"group {application_id}: no process reports an application_server; set query and application_server on "
            "each, or wait until one runs",
            RETRY_MS,
        )
    return endpoints


def _endpoints(group: GroupSnapshot) -> set[str]:
    reported = [process.report.user_end_point or "" for process in decode_group(group).processes]
    return {str(endpoint) for text in reported if (endpoint := read_endpoint(text)) and endpoint.host}


def _streams_endpoints(group: StreamsSnapshot) -> set[str]:
    endpoints = [member.user_endpoint for member in group.group.members]
    return {str(endpoint) for endpoint in endpoints if endpoint is not None}


def show_value(asked: Asked, members: Sequence[str], token: str | None, timeout_s: float, *, as_json: bool) -> bool:
    """Print the value and return whether there is one. Raises ``StoreNotAvailable`` and ``QueryRefused``."""
    with QueryClient(members, token=token, application_id=asked.application_id) as client:
        result = client.query(
            asked.store, asked.key, max_lag=asked.max_lag, partition=asked.partition, timeout_s=timeout_s
        )
    if as_json:
        facts = {
            "store": asked.store,
            "key": json_value(asked.key),
            "value": json_value(result.value),
            "role": result.role,
            "lag": result.lag,
            "endpoint": result.endpoint,
            "timestamp_ms": result.timestamp_ms,
        }
        print(json.dumps(facts))
    else:
        print(readable(result.value))
    return result.value is not None
