"""This process's share of an application that several processes of one machine run (``kstreams-assign run``).

The processes run the same module with the same settings, but some settings must differ between them. Each process sets
its share before it imports the module, and every ``Runtime`` that it makes applies the share to its ``Config``. So
``worker = Worker(config, [...])`` at the top of a module needs no change. What must not live here: how processes are
started (``processes``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from kstreams_assign.config import PORT_MAX, Config
from kstreams_assign.errors import ConfigError
from kstreams_assign.events import Event, EventListener
from kstreams_assign.model import HostInfo


@dataclass(frozen=True, slots=True)
class Share:
    """One process's number, from 0, of ``processes``.

    ``http``: the address that only its supervisor asks, if any; ``on_event``: a second listener.
    """

    number: int
    http: str | None
    on_event: EventListener
    processes: int = 1


_share: Share | None = None


def set_share(share: Share | None) -> None:
    """Make this the share of every ``Runtime`` that this process makes from now on; None ends that."""
    global _share  # noqa: PLW0603  # a process has one number, and a module that makes a worker is not given it
    _share = share


def apply_share(config: Config, on_event: EventListener | None) -> tuple[Config, EventListener | None]:
    """Return the settings and the listener of a worker in this process. Raises ``ConfigError``."""
    if _share is None:
        return config, on_event
    return share_settings(config, _share.number, _share.http, _share.processes), _both(_share.on_event, on_event)


def share_settings(config: Config, number: int, http: str | None, processes: int = 1) -> Config:
    """Return the settings of process ``number``: unique names, a state directory of its own, and ``http``.

    The processes share ``memory_limit_bytes`` equally; other settings of memory are those of each.
    Raises ``ConfigError`` for a port that does not exist, and for ``http`` where no supervisor serves it.
    """
    if config.http is not None and http is None:
        raise ConfigError(
            f"http = {config.http!r}: several processes cannot listen at one address; start them with "
            f"--http {config.http}, which serves all of them"
        )
    return replace(
        config,
        state_dir=str(Path(config.state_dir) / str(number)),
        process_name=_numbered(config.process_name, number),
        group_instance_id=_numbered(config.group_instance_id, number),
        application_server=_numbered_port("application_server", config.application_server, config.endpoint, number),
        query=_numbered_port("query", config.query, config.query_address, number),
        http=http,
        memory_limit_bytes=None if config.memory_limit_bytes is None else config.memory_limit_bytes // processes,
    )


def scarce_memory(config: Config, container_bytes: int | None) -> tuple[str, ...]:
    """Return a warning if this process and its like may take more memory than their container has."""
    processes = 1 if _share is None else _share.processes
    most = config.memory.most_bytes * processes
    if container_bytes is None or most <= container_bytes:
        return ()
    warning = (
        f"the container has {container_bytes >> 20} MiB of memory, and stores and buffers may take {most >> 20} MiB: "
        f"set memory_limit_bytes = {container_bytes}, or less if other programs run beside it"
    )
    return (warning,)


def _numbered(name: str | None, number: int) -> str | None:
    return None if name is None else f"{name}-{number}"


def _numbered_port(key: str, text: str | None, address: HostInfo | None, number: int) -> str | None:
    """Return the text with the port of process ``number``; port 0 stays, as each process takes a free one."""
    if text is None or address is None:
        return None
    port = address.port + number if address.port else 0
    if port > PORT_MAX:
        raise ConfigError(
            f"{key} = {text!r}: process {number} would have port {port}, above {PORT_MAX}; choose a lower port"
        )
    return f"{text.rpartition(':')[0]}:{port}"


def _both(first: EventListener, second: EventListener | None) -> EventListener:
    def listen(event: Event) -> None:
        first(event)
        if second is not None:
            second(event)

    return listen
