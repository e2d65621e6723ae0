"""Fast random numbers from a seed: a simulation draws one for each message."""

from __future__ import annotations

from collections.abc import Callable
from random import Random


class Chance(Random):
    """Draws the same numbers as ``Random`` from the same seed."""

    def randint(self, a: int, b: int) -> int:
        """Return a number from ``a`` to ``b``."""
        return self.between(a, b)()

    def between(self, a: int, b: int) -> Callable[[], int]:
        """Return ``randint(a, b)``, prepared to be called often; it draws as ``Random`` does: bits until one fits."""
        width = b - a + 1
        draw, bits = self.getrandbits, width.bit_length()

        def number() -> int:
            drawn = draw(bits)
            while drawn >= width:
                drawn = draw(bits)
            return a + drawn

        return number
