"""Client tags (KIP-708): how far apart the replicas of a task are, by the keys of ``rack_aware_assignment_tags``.

Two replicas clash once for each key for which both have the same value. A client without a key never clashes in it. A
clash with the active task weighs more than any number of clashes between standbys.
"""

from __future__ import annotations

from collections.abc import Sequence

from kstreams_assign.assign.values import Client


class TagSpread:
    """Counts clashes. Clients with the same values belong to one group."""

    def __init__(self, clients: Sequence[Client], keys: Sequence[str]) -> None:
        names: dict[tuple[str | None, ...], int] = {}
        values = [tuple(client.tags.get(key) for key in dict.fromkeys(keys)) for client in clients]
        self.group = [names.setdefault(tags, len(names)) for tags in values]
        self.groups: list[list[int]] = [[] for _ in names]
        for client, group in enumerate(self.group):
            self.groups[group].append(client)
        self.between = [
            [sum(x is not None and x == y for x, y in zip(tags, other, strict=True)) for other in names]
            for tags in names
        ]

    def clashes(self, owner: int, standbys: Sequence[int], client: int) -> int:
        """Return the weight of the clashes that a replica on this client would have with the others."""
        return self.group_clashes(owner, standbys, self.group[client])

    def group_clashes(self, owner: int, standbys: Sequence[int], group: int) -> int:
        """Return the same for any client of a group."""
        row = self.between[group]
        return row[self.group[owner]] * len(self.group) + sum(row[self.group[other]] for other in standbys)

    def all_clashes(self, owner: int, standbys: Sequence[int]) -> int:
        """Return the weight of all clashes of a task's replicas with each other."""
        return sum(self.clashes(owner, standbys[:number], each) for number, each in enumerate(standbys))

    def apart(self, client: int) -> list[int]:
        """Return per client 1 if a standby there has the fewest possible clashes with the client, else 0."""
        group = self.group[client]
        clashes = [self.between[group][other] for other in self.group]
        least = min((each for other, each in enumerate(clashes) if other != client), default=0)
        return [int(each == least) for each in clashes]

    def fewest(self, owner: int, wanted: int) -> int:
        """Return the weight of the clashes that remain if each standby in turn is put where it clashes least."""
        free = [len(clients) for clients in self.groups]
        free[self.group[owner]] -= 1
        standbys: list[int] = []
        for _ in range(wanted):
            open_groups = (group for group, number in enumerate(free) if number)
            group = min(open_groups, key=lambda candidate: (self.group_clashes(owner, standbys, candidate), candidate))
            free[group] -= 1
            standbys.append(self.groups[group][0])
        return self.all_clashes(owner, standbys)
