"""Where a task runs now that no process has caught up with: it has no warm state to protect.

Such a task is restored wherever it runs. It goes to its final owner at once, unless a process that has more of its
state would have it sooner. All processes count as reading changelogs at the same speed, and all their active tasks
together: a process has its tasks once it has read all that they lack.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kstreams_assign.assign.previous_state import NO_CLIENT, PreviousState


def send_back(held: PreviousState, running: list[int], moved: Mapping[int, int], load: list[int]) -> None:
    """Change where tasks run that would be restored sooner where they came from, or on a most caught-up client.

    ``moved`` maps each task that has moved to its final owner, which is not among the most caught-up clients, to its
    previous owner if that may keep it, else to ``NO_CLIENT``. ``load`` counts the active tasks of each client. Tasks
    that lack least elsewhere go back first. Afterwards no moved task would be sooner on a more caught-up client.
    """
    lacking = _lacking(held, running)
    least = {task: min(held.lacks(task, client) for client in held.ahead(task, running[task])) for task in moved}
    left = sorted(moved, key=lambda task: (least[task], task))
    settled = False
    while not settled:
        settled = True
        for task in tuple(left):
            goal = running[task]
            if all(lacking[goal] <= lacking[other] + held.lacks(task, other) for other in held.ahead(task, goal)):
                continue
            other = moved[task] if moved[task] != NO_CLIENT else least_loaded(held, task, load)
            running[task] = other
            for client, sign in ((goal, -1), (other, 1)):
                lacking[client] += sign * held.lacks(task, client)
                load[client] += sign
            left.remove(task)
            settled = False


def least_loaded(held: PreviousState, task: int, load: Sequence[int]) -> int:
    """Return the client with the fewest tasks per thread of the most caught-up ones."""
    best = held.most_caught_up(task) or range(len(load))
    return min(best, key=lambda client: (load[client] / held.capacity[client], client))


def _lacking(held: PreviousState, running: Iterable[int]) -> list[int]:
    """Return the offsets that the tasks of each client lack there."""
    lacking = [0] * len(held.clients)
    for task, client in enumerate(running):
        lacking[client] += held.lacks(task, client)
    return lacking
