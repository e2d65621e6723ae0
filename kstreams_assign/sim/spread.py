"""How many plays are done: one after the other here, or by whoever the command line joins (``cli``), Spark for one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Spread(Protocol):
    """Calls ``work`` with each item and answers in their order. ``work`` is a function of a module, and items can be pickled."""

    def __call__(self, work: Callable[[Any], Any], items: Sequence[Any], /) -> list[Any]: ...


def here(work: Callable[[Any], Any], items: Sequence[Any], /) -> list[Any]:
    return [work(item) for item in items]
