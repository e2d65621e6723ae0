"""The project's own assignor: KIP-441's properties with the fewest owner changes.

``assignor`` is the whole; ``final_owners`` and ``rack_owners`` find where active tasks belong, ``exchanges`` improves
that by swaps, ``prices`` says what a place costs. The standbys are placed by ``assign.standby``.
"""
