"""How many simulations are run: one after the other here, or as the command line chooses (``cli``), such as Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Spread(Protocol):
    """Return ``work(item)`` for each item, in order. ``work`` is a function of a module; items can be pickled."""

    def __call__(self, work: Callable[[Any], Any], items: Sequence[Any], /) -> list[Any]: ...


def here(work: Callable[[Any], Any], items: Sequence[Any], /) -> list[Any]:
    return [work(item) for item in items]
