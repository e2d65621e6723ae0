"""How many standbys of the tasks that one process runs belong on each other process: a table of numbers.

Rows are the processes that run the tasks, columns those that hold the standbys. When a process is lost, the standbys
of its row become active. A row is *loss-proof* if each other process then runs its even share, so that no task has to
move later. Columns are even if each process has as many replicas as others; then one that joins has few standbys to
restore. Even columns come first: uneven ones cost more restores than they save, also where processes are lost. For the
same reason rows only have a price beside what is to be restored, wherever the cheapest layout can be found
(``rows_priced``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kstreams_assign.assign.standby.tag_spread import TagSpread

Counts = Sequence[int]
Shares = tuple[list[int], int]
"""How much goes to each client, and into how many parts one standby is divided."""

EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class Row:
    """The least and the most standbys on each client; ``due``: the clients that must have any.

    ``heirs`` are the least and the most tasks that each client can take over when the row is lost.
    """

    least: list[int]
    most: list[int]
    due: list[int]
    heirs: tuple[list[int], list[int]]


class StandbyLimits:
    """The rows, and the least and most standbys of each column.

    ``running`` are all active tasks of a client, ``stateful`` those of them that have ``wanted`` standbys each. Rows
    follow from the free seats after a loss: a process that runs one task less than others gets one standby more *of
    each row*. Where that would make columns uneven, rows follow capacities only. With ``tags`` they do too, and use
    only clients that differ from the row's client. Columns are as even as rows allow, active tasks included.

    ``rows_priced``: columns are as even as they would be without rows.
    """

    def __init__(
        self,
        running: Counts,
        stateful: Counts,
        capacity: Counts,
        wanted: int,
        tags: TagSpread | None = None,
        *,
        rows_priced: bool = False,
    ) -> None:
        self.running, self.stateful, self.capacity, self.wanted = running, stateful, capacity, wanted
        self.tasks = sum(stateful)
        self.tags = tags
        self.rows_priced = rows_priced
        self.loss_proof = tags is None
        even = self._lay_out()
        if rows_priced:
            self.share = even
        elif self.loss_proof and not self._is_even(even):
            self.loss_proof = False
            self._lay_out()
        self.column_low = [int(share + EPSILON) for share in self.share]
        self.column_high = [int(share + 1 - EPSILON) for share in self.share]

    def any_row(self) -> list[Row]:
        """Return rows that set no limits."""
        nothing, everything = [0] * len(self.capacity), [self.tasks] * len(self.capacity)
        return [Row(nothing, everything, [], (nothing, everything))] * len(self.capacity)

    def _is_even(self, even: Sequence[float]) -> bool:
        return all(
            int(other + EPSILON) - EPSILON <= share <= int(other + 1 - EPSILON) + EPSILON
            for share, other in zip(self.share, even, strict=True)
        )

    def _lay_out(self) -> list[float]:
        """Make rows and columns; return the columns as they would be if rows set no limits.

        Clients of the same kind share a row; their own cell is ignored.
        """
        made: dict[tuple[int, ...], Row] = {}
        self.rows = []
        group = self.tags.group if self.tags else [0] * len(self.capacity)
        for client, kind in enumerate(zip(self.capacity, self.stateful, self.running, group, strict=True)):
            if kind not in made:
                made[kind] = self._row(client)
            self.rows.append(made[kind])
        self.share = self._columns(*self._column_limits())
        return self._columns([0] * len(self.capacity), [self.tasks - own for own in self.stateful])

    def _row(self, client: int) -> Row:
        """Return the row: one standby of each task goes to its future owner; the others follow capacities, or tags."""
        tasks = self.stateful[client]
        even, even_parts = self._even(client)
        first, parts = (self._after_loss(client) if self.loss_proof else None) or (even, even_parts)
        shares = [
            heir * even_parts + (self.wanted - 1) * other * parts for heir, other in zip(first, even, strict=True)
        ]
        least = [min(tasks, share // (parts * even_parts)) for share in shares]
        most = [min(tasks, -(-share // (parts * even_parts))) for share in shares]
        if (
            sum(most) - most[client] < tasks * self.wanted
        ):  # some client would hold two of a task, so any client may take more
            most = [tasks] * len(shares)
        heirs = [share // parts for share in first], [-(-share // parts) for share in first]
        return Row(least, most, [other for other, number in enumerate(least) if number], heirs)

    def _even(self, client: int) -> Shares:
        """Divide the client's tasks by the capacities of the others, or of those that differ by their tags."""
        weights = self.capacity
        if self.tags:
            apart = self.tags.apart(client)
            weights = [threads * counts for threads, counts in zip(self.capacity, apart, strict=True)]
        return [self.stateful[client] * weight for weight in weights], sum(weights) - weights[client]

    def _after_loss(self, client: int) -> Shares | None:
        """Return how many of the client's tasks each other client takes to reach its even share; ``None`` without room.

        Shares rounded down are filled first. Of the tasks beyond that, each other client takes one at most.
        """
        tasks, threads = sum(self.running), sum(self.capacity) - self.capacity[client]
        each = list(zip(self.capacity, self.running, strict=True))
        seats = [max(0, tasks * own // threads - has) for own, has in each]
        all_seats = sum(seats) - seats[client]
        beyond = self.stateful[client] - all_seats
        if beyond <= 0 < all_seats:
            return [self.stateful[client] * seat for seat in seats], all_seats
        rests = [max(0, tasks * own - (has + seat) * threads) for (own, has), seat in zip(each, seats, strict=True)]
        all_rests = sum(rests) - rests[client]
        if all_rests == 0:
            return None
        return [seat * all_rests + rest * beyond for seat, rest in zip(seats, rests, strict=True)], all_rests

    def _column_limits(self) -> tuple[list[int], list[int]]:
        """Return per client the sums of the rows of all others."""
        least, most = [0] * len(self.capacity), [0] * len(self.capacity)
        times: dict[int, tuple[Row, int]] = {}
        for row in self.rows:
            times[id(row)] = (row, times.get(id(row), (row, 0))[1] + 1)
        for row, number in times.values():
            least = [so_far + number * cell for so_far, cell in zip(least, row.least, strict=True)]
            most = [so_far + number * cell for so_far, cell in zip(most, row.most, strict=True)]
        for client, row in enumerate(self.rows):
            least[client] -= row.least[client]
            most[client] -= row.most[client]
        return least, most

    def _columns(self, least: Counts, most: Counts) -> list[float]:
        """Return even shares of all replicas by threads, less the active tasks, within limits.

        A water level is raised until all fit.
        """
        limits = list(zip(self.capacity, self.running, least, most, strict=True))
        bends = [((low + running) / threads, threads) for threads, running, low, _ in limits]
        bends += [((high + running) / threads, -threads) for threads, running, _, high in limits]
        bends.sort()
        level, slope, held, wanted = bends[0][0], 0, float(sum(least)), self.tasks * self.wanted
        for bend, change in bends:
            if held + slope * (bend - level) >= wanted:
                break
            held += slope * (bend - level)
            level, slope = bend, slope + change
        if slope:
            level += (wanted - held) / slope
        return [min(max(level * threads - running, low), high) for threads, running, low, high in limits]
