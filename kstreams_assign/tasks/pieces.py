"""How a batch in which the user's function raised is worked on again, until the guilty records are alone. Pure.

A function may raise for one record of thousands. The batch is undone and worked on in smaller pieces: those in which
the function returns are done, and a record for which it raises alone is guilty. A function that reads its records one
after the other raises at the guilty record, which is then the record at work: what is before it and behind it stays
together, so an innocent record is worked on twice. A function that reads ahead gives no such hint, and its batch is
halved. So is one that raised at its first or last record, where a function may stand that gives no hint.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Pieces:
    """The sizes of the next pieces of a batch, in their order; none means that nothing is to be worked on again."""

    sizes: list[int] = field(default_factory=list)

    def next_records(self, records: int) -> int:
        """Return how many of so many records to work on at once."""
        return min(records, self.sizes[0]) if self.sizes else records

    def pass_over(self, records: int) -> None:
        """The next records are done: returned from, or set aside."""
        while records and self.sizes:
            passed = min(records, self.sizes[0])
            records -= passed
            self.sizes[0] -= passed
            if not self.sizes[0]:
                del self.sizes[0]

    def split(self, records: int, at_work: int) -> None:
        """The function raised in the next piece, of at least two records; ``at_work``: index of the record then."""
        self.pass_over(records)
        if 0 < at_work < records - 1:
            smaller = [at_work, 1, records - at_work - 1]
        else:
            smaller = [records // 2, records - records // 2]
        self.sizes[:0] = smaller
