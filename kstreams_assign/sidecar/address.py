"""Where the sidecar listens: a Unix socket of this user's alone, or TCP on loopback where that is asked for.

What lives here: the address, and making and removing its socket. What must not: what is said over it.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from kstreams_assign.adapters.listening import describe_listen_error
from kstreams_assign.config import is_port
from kstreams_assign.errors import ConfigError
from kstreams_assign.state.forking import open_unshared

TCP = "tcp://"
PATH_BYTES_MAX = 107  # sockaddr_un holds 108 with the zero at the end
BACKLOG = 100
"""Connections that wait to be accepted. asyncio's clients cannot wait for room there."""


class UnixAddress(NamedTuple):
    """A socket file."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


class TcpAddress(NamedTuple):
    """An address of this machine's loopback; port 0 takes a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{TCP}{host}:{self.port}"


Address = UnixAddress | TcpAddress

NUMBER = "{n}"
"""Stands in the path of a socket for the number of a process."""


def refuse_shared_socket(address: Address, processes: int) -> None:
    """Raise ``ConfigError`` for a path that would be the same in several processes, and for ports above the last."""
    if isinstance(address, UnixAddress) and processes > 1 and NUMBER not in str(address):
        path = address.path
        raise ConfigError(
            f"socket = {str(path)!r}: must contain {NUMBER} for {processes} processes, as in "
            f"{str(path.with_stem(f'{path.stem}-{NUMBER}'))!r}"
        )
    for number in range(processes):
        numbered_address(address, number)


def numbered_address(address: Address, number: int) -> Address:
    """Return the address of process ``number``: its number for ``{n}`` in a path, the port plus its number for TCP.

    Port 0 remains, as it takes a free port. Raises ``ConfigError``.
    """
    if isinstance(address, UnixAddress):
        return read_address(str(address).replace(NUMBER, str(number)))
    return address if address.port == 0 else read_address(str(address._replace(port=address.port + number)))


def read_address(text: str) -> Address:
    """A path, or ``tcp://HOST:PORT`` on loopback. Raises ``ConfigError``."""
    if text.startswith(TCP):
        return _read_tcp(text)
    if not text or len(text.encode()) > PATH_BYTES_MAX:
        raise ConfigError(f"socket = {text!r}: must be a path of 1 to {PATH_BYTES_MAX} bytes, or {TCP}127.0.0.1:PORT")
    return UnixAddress(Path(text))


def _read_tcp(text: str) -> TcpAddress:
    host, colon, port = text.removeprefix(TCP).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and is_port(port) and _loops_back(host)):
        raise ConfigError(f"socket = {text!r}: must be {TCP}127.0.0.1:PORT or {TCP}[::1]:PORT, on loopback only")
    return TcpAddress(host, int(port))


def _loops_back(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def listen(address: Address) -> socket.socket:
    """A socket that accepts at the address. Raises ``ConfigError`` where it is taken or cannot be had."""
    try:
        return open_unshared(
            lambda: _listen_unix(address.path) if isinstance(address, UnixAddress) else _listen_tcp(address)
        )
    except OSError as cause:
        path = isinstance(address, UnixAddress)
        reason = f"{cause.strerror or cause}; choose another path" if path else describe_listen_error(cause)
        raise ConfigError(f"socket = {address}: cannot listen there: {reason}") from cause


def _listen_tcp(address: TcpAddress) -> socket.socket:
    return socket.create_server(
        (address.host, address.port),
        family=socket.AF_INET6 if ":" in address.host else socket.AF_INET,
        backlog=BACKLOG,
    )


def _listen_unix(path: Path) -> socket.socket:
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        path.chmod(stat.S_IRUSR | stat.S_IWUSR)  # before anybody can connect, which takes a listen
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _remove_stale(path: Path) -> None:
    """Delete a socket file without a listener: a killed worker left it."""
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise ConfigError(f"socket = {path}: is no socket; name another path, or remove the file")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # a listener that does not accept would keep it waiting
        answer = probe.connect_ex(str(path))
    if answer not in (errno.ECONNREFUSED, errno.ENOENT):  # the file may have been deleted meanwhile
        raise ConfigError(f"socket = {path}: another process listens there; end it, or choose another path")
    path.unlink(missing_ok=True)


def read_file_id(address: Address) -> os.stat_result | None:
    """Return what identifies the file of a socket as long as the socket is open; None for TCP."""
    return address.path.lstat() if isinstance(address, UnixAddress) else None


def remove_file(address: Address, file_id: os.stat_result | None) -> None:
    """Delete the file of a socket that still listens, unless another file is at its path.

    Once the socket listens no more, a successor may bind the path, and its file may get the same inode number.
    """
    if isinstance(address, UnixAddress) and file_id is not None:
        with suppress(FileNotFoundError):
            if os.path.samestat(address.path.lstat(), file_id):
                address.path.unlink()
