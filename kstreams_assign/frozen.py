"""Dataclasses that are frozen for the type checker, and cost no more to make than others.

A frozen dataclass of the standard library sets each field through ``object.__setattr__``, so making a value takes three
times as long. Each rebalance makes hundreds of values. The type checker refuses to change a field of one; at run time
nothing does. Use this for values that are made often.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool = False, slots: bool = False) -> Callable[[type], type]:
        """Return the standard library's decorator, without its checks. A frozen value has a hash, as there."""
        return dataclasses.dataclass(slots=slots, unsafe_hash=frozen)


__all__ = ["dataclass"]
