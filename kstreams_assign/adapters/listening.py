"""Why a program cannot listen at an address, and the fix: the operating system's reason alone does not name one."""

from __future__ import annotations

import errno
import socket


def describe_listen_error(cause: OSError, any_port: str = "port 0") -> str:
    """Return the reason and the fix; ``any_port`` is what the setting takes for a free port."""
    reason = cause.strerror or str(cause)
    if isinstance(cause, socket.gaierror):
        return f"the host has no address ({reason}); choose a host of this machine, such as 127.0.0.1"
    fixes = {
        errno.EADDRINUSE: f"the address is in use; choose another port, or {any_port} for a free one",
        errno.EADDRNOTAVAIL: "this machine does not have that address; choose one of its own, such as 127.0.0.1",
        errno.EACCES: "this process is not allowed to use that port; choose one of 1024 or above",
    }
    return fixes.get(cause.errno or 0, reason)
