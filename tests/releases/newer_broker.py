"""A broker of a newer release than the embedded one: Kafka 4.4.0, for what 4.3.1 does not know.

Its jars are in the embedded broker's cache; ``newer_broker.lock`` names them all, with their SHA-256. Half of them are
those of 4.3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kstreams_assign.local import LocalBroker
from kstreams_assign.local.jars import class_path, locked_jars

LOCK = Path(__file__).with_name("newer_broker.lock")


class NewerBroker(LocalBroker):
    """As ``LocalBroker``, of the newer release."""

    version = "4.4.0"

    def _class_path(self) -> Sequence[Path]:
        return class_path(locked_jars(LOCK), progress=self._progress)
