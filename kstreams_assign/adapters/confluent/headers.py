"""Headers of records that confluent-kafka read.

What lives here: reading the headers of records whose header names are not UTF-8. Kafka's protocol defines names as
UTF-8, but no broker checks them, so any client may write other bytes. confluent-kafka has no name for such a header:
the first ``Message.headers`` raises ``SystemError``, later calls return tuples whose first item is missing, which
Python must not touch.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import cast

from confluent_kafka import Message

from kstreams_assign.adapters.client_logs import OncePerHalfMinute
from kstreams_assign.tasks.record import Headers

# A record that was read has its headers as a list of pairs; the client's types allow for what a producer takes.
headers_of = cast("Callable[[Message], Headers | None]", Message.headers)

LOGGER = logging.getLogger("kstreams_assign.adapters.confluent.headers")
LOGGER.addFilter(OncePerHalfMinute())


def readable_headers(messages: Iterable[Message]) -> Iterator[Headers | None]:
    """Return the headers of each record without those whose name is not UTF-8; None for a record that has no headers.

    Calls ``headers_of`` by ``map``: where Python has specialized a call of its own, it does not notice that an error is
    set beside the result, and raises it in whichever call comes next. Slower than ``headers_of`` alone, which is enough
    where no call of it raises ``SystemError``. Logs a warning for each topic partition.
    """
    for message in messages:
        try:
            (headers,) = map(headers_of, (message,))
        except SystemError:
            (headers,) = map(headers_of, (message,))
        if not headers:
            yield None
            continue
        readable = [header for header in headers if _has_name(header)]
        if len(readable) < len(headers):
            LOGGER.warning(
                "%s-%s: record at offset %s: %s of its %s headers left out, their names are not UTF-8",
                *(message.topic(), message.partition(), message.offset()),
                *(len(headers) - len(readable), len(headers)),
            )
        yield readable


def _has_name(header: tuple[str, bytes | None]) -> bool:
    """Look at a header without touching its first item: the garbage collector lists the items that are there."""
    return len(gc.get_referents(header)) == len(header)
