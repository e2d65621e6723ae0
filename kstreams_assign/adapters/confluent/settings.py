"""What every librdkafka client here is configured with, and in which order settings win.

Tuning is below the caller's ``client`` settings (SASL, TLS, buffers), what correctness needs is above them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

Setting = str | int | float | bool

logger = logging.getLogger("kstreams_assign.adapters.confluent")
"""Where librdkafka's own log lines go; without it they go to standard error."""

_EVERYWHERE: Mapping[str, Setting] = {
    # The default, 10 s, is how long a client may go on sleeping after its broker came back.
    "reconnect.backoff.max.ms": 1_000,
    "socket.nagle.disable": True,
}


def merged(
    bootstrap_servers: str,
    client: Mapping[str, str] | None,
    tuning: Mapping[str, Setting],
    needed: Mapping[str, Setting],
) -> dict[str, Setting]:
    """Settings of one client: ``tuning`` < the caller's ``client`` < what is ``needed``."""
    return {**_EVERYWHERE, **tuning, **(client or {}), **needed, "bootstrap.servers": bootstrap_servers}
