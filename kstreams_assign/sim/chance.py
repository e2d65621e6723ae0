"""Chance that can be had again, and quickly: a group draws for every message that travels."""

from __future__ import annotations

from random import Random


class Chance(Random):
    """Draws what ``Random`` draws from the same seed."""

    def randint(self, a: int, b: int) -> int:
        """From ``a`` to ``b``, as ``Random`` does it: bits are drawn until they are a number in it."""
        width = b - a + 1
        draw, bits = self.getrandbits, width.bit_length()
        drawn = draw(bits)
        while drawn >= width:
            drawn = draw(bits)
        return a + drawn
