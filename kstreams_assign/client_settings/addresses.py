"""The addresses of the brokers to connect to first, checked before a client gets them.

The clients differ where an address is incomplete: librdkafka takes the port modulo 65,536, drops an entry of another
protocol, and reads ``127.0.0.1:x`` as port 0. So every entry must be complete, as Java's clients require. Pure. What
must not live here: looking an address up.
"""

from __future__ import annotations

import re

from kstreams_assign.errors import ConfigError

_PORT_MAX = 65_535
_DEFAULT_PORT = 9092
_ENTRY = re.compile(r"(?:(?P<protocol>[^:/\[\]]*)://)?(?P<host>\[[^\s\[\]]+\]|[^\s:/\[\]]+)(?::(?P<port>[0-9]{1,5}))?")
_BARE_IPV6 = re.compile(r"(?=.*:.*:)[0-9A-Fa-f:.]+")


def refuse_incomplete_addresses(bootstrap_servers: str, security_protocol: str = "plaintext") -> None:
    """Raise ``ConfigError`` unless each entry is HOST:PORT; it may begin with ``security_protocol`` and ``://``."""
    for entry in map(str.strip, bootstrap_servers.split(",")):
        if fix := _fix(entry, security_protocol):
            raise ConfigError(
                f"bootstrap_servers = {bootstrap_servers!r}: must be HOST:PORT, several separated by commas; {fix}"
            )


def _fix(entry: str, security_protocol: str) -> str | None:
    """Return what to change about one entry, None if it is complete."""
    if not entry:
        return "remove the empty entry"
    if _BARE_IPV6.fullmatch(entry):
        return f"put the IPv6 address into brackets and add a port, such as [::1]:{_DEFAULT_PORT}"
    match = _ENTRY.fullmatch(entry)
    if match is None:
        return f"{entry!r} is not of that form, such as localhost:{_DEFAULT_PORT}"
    protocol, port = match["protocol"], match["port"]
    fix = None
    if protocol is not None and protocol.upper() != security_protocol.upper():
        fix = f"remove {protocol}://, as security.protocol = {security_protocol!r} (under client) decides the protocol"
    elif port is None:
        fix = f"add the port, such as {entry}:{_DEFAULT_PORT}"
    elif not 1 <= int(port) <= _PORT_MAX:
        fix = f"the port of {entry!r} must be 1 to {_PORT_MAX}"
    return fix
