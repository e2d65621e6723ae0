"""Fast random numbers from a seed: a simulation draws one for each message."""

from __future__ import annotations

from collections.abc import Callable
from random import Random


class Chance(Random):
    """Draws the same numbers as ``Random`` from the same seed."""

    def randint(self, a: int, b: int) -> int:
        """Return a number from ``a`` to ``b``, drawn as ``Random`` does: bits until they are in the range."""
        width = b - a + 1
        draw, bits = self.getrandbits, width.bit_length()
        drawn = draw(bits)
        while drawn >= width:
            drawn = draw(bits)
        return a + drawn

    def between(self, a: int, b: int) -> Callable[[], int]:
        """Return ``randint(a, b)``, prepared to be called often."""
        width = b - a + 1
        draw, bits = self.getrandbits, width.bit_length()

        def number() -> int:
            drawn = draw(bits)
            while drawn >= width:
                drawn = draw(bits)
            return a + drawn

        return number
