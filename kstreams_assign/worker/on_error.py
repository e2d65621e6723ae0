"""``on_error`` of a subtopology: what becomes of a record for which the user's function raises.

What must not live here: how it is carried out (``bad_records``).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import get_args

from kstreams_assign.errors import ConfigError
from kstreams_assign.tasks.record import Record
from kstreams_assign.topology.flows import OnErrorChoice
from kstreams_assign.worker.user_functions import refuse_no_function

OnError = OnErrorChoice | Callable[[Record, Exception], str]
"""``fail`` ends the worker, ``skip`` goes on behind the record, ``dead_letter`` also sends it to the dead-letter topic;
a function gets the record and the error, and answers one of these."""


class Response(StrEnum):
    """What ``on_error`` answers (Kafka: ``ProcessingExceptionHandler.Response``)."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead_letter"


assert {*Response} == {*get_args(OnErrorChoice)}

CHOICES = ", ".join(repr(each.value) for each in Response)


def check_on_error(key: str, on_error: object) -> None:
    """Raise ``ConfigError`` for a value that ``on_error`` cannot have."""
    if callable(on_error):
        refuse_no_function(key, on_error, ("record", "error"))
    elif on_error not in (*Response,):
        raise ConfigError(f"{key} = {on_error!r}: must be {CHOICES}, or a function (record, error)")
