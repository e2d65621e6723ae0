"""The hash table in which a coordinator keeps a streams group's members, for its iteration order.

Kafka: ``TimelineHashMap`` with its ``BaseHashTable``. StreamsGroupDescribe lists members in this order, and the
broker's assignor gets them in it. So an answer limits which tables are possible: ``possible_tables``. What must not
live here: what the assignor makes of the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kstreams_assign.assign.java_order import text_hash

FEWEST_SLOTS = 2
LOAD_FACTOR = 0.75
FIBONACCI = -7046029254386353131 % 2**64
FORMER_SIZE_MAX = 16
"""A table never shrinks. One that held so many times its present members is taken into account."""


class MemberTable:
    """Slots of member ids. Within a slot the latest id is iterated first."""

    def __init__(self, slots: int = FEWEST_SLOTS) -> None:
        self.slots = slots
        self._ids: dict[int, list[str]] = {}

    @classmethod
    def holding(cls, order: Sequence[str], slots: int) -> MemberTable:
        """Return a table of this size whose ids come in this order, as far as their slots allow."""
        table = cls(slots)
        table._insert(reversed(order))
        return table

    def put(self, member_id: str) -> None:
        """Add an id. As in Kafka, the table may also grow for an id that it holds."""
        if (len(self.order()) + 1) * LOAD_FACTOR > self.slots:
            ids = [member_id for slot in sorted(self._ids) for member_id in self._ids[slot]]
            self.slots *= 2
            self._ids = {}
            self._insert(ids)
        if member_id not in self._ids.get(slot_of(member_id, self.slots), ()):
            self._insert([member_id])

    def remove(self, member_id: str) -> None:
        """Remove an id that is in the table."""
        self._ids[slot_of(member_id, self.slots)].remove(member_id)

    def order(self) -> list[str]:
        return [member_id for slot in sorted(self._ids) for member_id in reversed(self._ids[slot])]

    def copy(self) -> MemberTable:
        return self.holding(self.order(), self.slots)

    def _insert(self, member_ids: Iterable[str]) -> None:
        for member_id in member_ids:
            self._ids.setdefault(slot_of(member_id, self.slots), []).append(member_id)


def slot_of(member_id: str, slots: int) -> int:
    """Return the slot of an id in a table of so many slots, a power of two."""
    hashed = text_hash(member_id)
    signed = hashed - 2**32 if hashed >= 2**31 else hashed
    return ((signed * FIBONACCI) % 2**64) >> (65 - slots.bit_length())


def smallest_table(members: int) -> int:
    """Return the slots of a table that grew to hold so many members."""
    slots = FEWEST_SLOTS
    while members * LOAD_FACTOR > slots:
        slots *= 2
    return slots


def possible_tables(order: Sequence[str]) -> list[MemberTable]:
    """Return the tables, smallest first, that give their ids in this order; none if it is of no table."""
    slots = smallest_table(len(order))
    tables = []
    while slots <= FORMER_SIZE_MAX * max(len(order), 4):
        table = MemberTable.holding(order, slots)
        if table.order() == list(order):
            tables.append(table)
        slots *= 2
    return tables
