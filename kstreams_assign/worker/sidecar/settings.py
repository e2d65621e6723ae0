"""The sidecar's file: the settings of ``Config``, and the topology, which a library's user writes as code.

Everything is checked here, before anything is started: a wrong value is refused with its key, the value and what is allowed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kstreams_assign.config import Config
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import Store
from kstreams_assign.worker.sidecar.address import Address, TcpAddress, read_address
from kstreams_assign.worker.task import Flow, topology_shape

KEYS = ("sources", "repartition_sources", "stores", "sinks")
STORE_KEYS = ("name", "changelog")
TOKEN_CHARACTERS_MIN = 16


@dataclass(frozen=True, slots=True)
class SidecarSettings:
    """What a sidecar runs on."""

    config: Config
    flows: tuple[Flow, ...]
    address: Address

    @classmethod
    def from_toml(cls, path: str | Path, told: Iterable[str] = ()) -> SidecarSettings:
        """Read a file, then ``told`` (KEY=VALUE) over it. Raises ``ConfigError``, also for a file that cannot be read."""
        return cls.from_mapping(read_toml(path, told))

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> SidecarSettings:
        """Build from the file's keys. Raises ``ConfigError``."""
        config = Config.from_mapping({key: value for key, value in settings.items() if key != "topology"})
        flows = read_topology(settings.get("topology"))
        topology_shape(flows)
        return cls(config, flows, _address(config))


def read_toml(path: str | Path, told: Iterable[str] = ()) -> dict[str, Any]:
    """A file's keys, with ``told`` (KEY=VALUE) over them. Raises ``ConfigError``, also for a file that cannot be read."""
    over = dict(map(_told, told))
    try:
        settings = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as cause:
        raise ConfigError(f"{path}: {cause}") from cause
    return {**settings, **over}


def _told(pair: str) -> tuple[str, Any]:
    """``KEY=VALUE``; the value is read as TOML, and what is no TOML (a host's name) is a text."""
    key, equals, text = pair.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set {pair}: write KEY=VALUE, as in num_standby_replicas=1")
    try:
        return key, tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return key, text


def _address(config: Config) -> Address:
    if not isinstance(config.socket, str):
        raise ConfigError(f"socket = {config.socket!r}: must be a path, or tcp://127.0.0.1:PORT; it has no default")
    address, token = read_address(config.socket), config.socket_token
    if token is not None and (not isinstance(token, str) or len(token) < TOKEN_CHARACTERS_MIN):
        raise ConfigError(
            f"socket_token: must be a text of at least {TOKEN_CHARACTERS_MIN} characters (it is not shown)"
        )
    if isinstance(address, TcpAddress) and token is None:
        raise ConfigError(f"socket = {config.socket!r}: TCP needs a socket_token, as anybody here may connect")
    return address


def read_topology(topology: object) -> tuple[Flow, ...]:
    """The ``[[topology.subtopology]]`` tables, in their order. Raises ``ConfigError``."""
    found = topology if isinstance(topology, dict) else {}
    tables = found.get("subtopology")
    if not isinstance(tables, list) or not tables or len(found) > 1:
        raise ConfigError("topology: write a [[topology.subtopology]] table for each subtopology; at least one")
    return tuple(_flow(f"topology.subtopology[{number}]", table) for number, table in enumerate(tables))


def _flow(key: str, table: object) -> Flow:
    if not isinstance(table, dict):
        raise ConfigError(f"{key} = {table!r}: must be a table of {', '.join(KEYS)}")
    _refuse_unknown(key, table, KEYS)
    if table.get("repartition_sources"):
        raise ConfigError(
            f"{key}.repartition_sources = {table['repartition_sources']!r}: not supported yet; must be left out. "
            "Write to a topic of your own and name it among the sources of another subtopology"
        )
    sources, sinks = (_texts(f"{key}.{name}", table.get(name, [])) for name in ("sources", "sinks"))
    if not sources:
        raise ConfigError(f"{key}.sources = {sources!r}: must be a list of at least one topic")
    stores = table.get("stores", [])
    if not isinstance(stores, list):
        raise ConfigError(
            f"{key}.stores = {stores!r}: must be a list of names, or of tables of {', '.join(STORE_KEYS)}"
        )
    return Flow.of(sources, [_store(f"{key}.stores[{n}]", store) for n, store in enumerate(stores)], sinks)


def _store(key: str, store: object) -> Store:
    if isinstance(store, str) and store:
        return Store(store)
    if not isinstance(store, dict):
        raise ConfigError(f"{key} = {store!r}: must be a name, or a table of {', '.join(STORE_KEYS)}")
    _refuse_unknown(key, store, STORE_KEYS)
    name, changelog = store.get("name"), store.get("changelog", True)
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{key}.name = {name!r}: must be a text that is not empty")
    if not isinstance(changelog, bool):
        raise ConfigError(f"{key}.changelog = {changelog!r}: must be true or false")
    return Store(name, logged=changelog)


def _texts(key: str, values: object) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) and value for value in values):
        raise ConfigError(f"{key} = {values!r}: must be a list of topics")
    return values


def _refuse_unknown(key: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in table:
        if name not in known:
            raise ConfigError(f"{key}.{name}: no such setting; allowed are {', '.join(known)}")
