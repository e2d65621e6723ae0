"""What every librdkafka client here is configured with, in which order settings win, and where its log lines go.

Tuning is below the caller's ``client`` settings (SASL, TLS, buffers), what correctness needs is above them.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping

Setting = str | int | float | bool

_SAME_AGAIN_S = 30.0

_EVERYWHERE: Mapping[str, Setting] = {
    # The default, 10 s, is how long a client may go on sleeping after its broker came back.
    "reconnect.backoff.max.ms": 1_000,
    "socket.nagle.disable": True,
}


class OncePerHalfMinute(logging.Filter):
    """Lets a line through that was not seen within 30 s, numbers aside.

    While a broker is gone, every client says so twenty times a second.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        line = re.sub(r"\d+", "", record.getMessage())
        now_s = time.monotonic()
        fresh = now_s - self._seen_s.get(line, -_SAME_AGAIN_S) >= _SAME_AGAIN_S
        if fresh:
            self._seen_s = {seen: at_s for seen, at_s in self._seen_s.items() if now_s - at_s < _SAME_AGAIN_S}
            self._seen_s[line] = now_s
        return fresh


logger = logging.getLogger("kstreams_assign.adapters.confluent")
"""Takes librdkafka's own log lines, which would otherwise go to standard error. Handed over during polls."""
logger.addFilter(OncePerHalfMinute())


def merged(
    bootstrap_servers: str,
    client: Mapping[str, str] | None,
    tuning: Mapping[str, Setting],
    needed: Mapping[str, Setting],
) -> dict[str, Setting]:
    """Settings of one client: ``tuning`` < the caller's ``client`` < what is ``needed``."""
    return {**_EVERYWHERE, **tuning, **(client or {}), **needed, "bootstrap.servers": bootstrap_servers}
