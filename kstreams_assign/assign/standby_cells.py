"""How many standbys of the tasks that one process runs belong on each other process: a table of numbers.

Rows are the processes that run the tasks, columns those that hold the standbys. When a process is lost, the standbys of its row
become active; the row is right when each other process then runs its even share, so that no task has to move later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Counts = Sequence[int]

EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class Row:
    """The least and the most standbys on each client; ``due``: the clients that must have any."""

    least: list[int]
    most: list[int]
    due: list[int]


class StandbyCells:
    """The rows, and the least and most standbys of each column.

    ``running`` are all active tasks of a client, ``stateful`` those of them that have ``wanted`` standbys each. Rows follow from
    what a loss leaves to take: whoever runs one task less than others gets one standby more *of each row*, which makes
    columns uneven. Where that would put more than a third of all standbys (and more than two) out of place, rows follow
    capacities only. Columns are as even as rows allow, active tasks counted in.
    """

    def __init__(self, running: Counts, stateful: Counts, capacity: Counts, wanted: int) -> None:
        self.running, self.stateful, self.capacity, self.wanted = running, stateful, capacity, wanted
        self.tasks = sum(stateful)
        self.rows = self._rows(loss_proof=True)
        least, most = self._column_limits()
        even = self._columns([0] * len(capacity), [self.tasks - own for own in stateful])
        displaced = sum(
            max(0, low - share, share - high) for share, low, high in zip(even, least, most, strict=True)
        )
        self.loss_proof = displaced / 2 <= max(self.tasks * wanted / 3, 2)
        if not self.loss_proof:
            self.rows = self._rows(loss_proof=False)
            least, most = self._column_limits()
        self.share = self._columns(least, most)
        self.column_low = [int(share + EPSILON) for share in self.share]
        self.column_high = [int(share + 1 - EPSILON) for share in self.share]

    def _rows(self, *, loss_proof: bool) -> list[Row]:
        """Clients of the same kind share a row: of their own cell nobody takes notice."""
        made: dict[tuple[int, int, int], Row] = {}
        rows = []
        for client, kind in enumerate(zip(self.capacity, self.stateful, self.running, strict=True)):
            if kind not in made:
                made[kind] = self._row(client, loss_proof=loss_proof)
            rows.append(made[kind])
        return rows

    def _row(self, client: int, *, loss_proof: bool) -> Row:
        tasks, standbys = self.stateful[client], self.stateful[client] * self.wanted
        weights = self._left_to_take(client) if loss_proof else self.capacity
        total = sum(weights) - weights[client]
        if total <= 0:
            weights, total = self.capacity, sum(self.capacity) - self.capacity[client]
        least = [min(tasks, weight * standbys // total) for weight in weights]
        most = [min(tasks, -(-weight * standbys // total)) for weight in weights]
        if sum(most) - most[client] < standbys:  # more standbys than that a task: on whoever is left
            most = [tasks] * len(weights)
        return Row(least, most, [other for other, number in enumerate(least) if number])

    def _left_to_take(self, lost: int) -> list[int]:
        """Per client its share of all tasks without the lost client, less what it runs now (times the threads left)."""
        tasks, threads = sum(self.running), sum(self.capacity) - self.capacity[lost]
        return [max(0, tasks * own - running * threads) for own, running in zip(self.capacity, self.running, strict=True)]

    def _column_limits(self) -> tuple[list[int], list[int]]:
        """Per client the sums of what the rows of all others say."""
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
        """Even shares of all copies by threads, less the active tasks, within limits: a water level is raised until all fit."""
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
