"""Plays in several processes of this machine: each takes every n-th, and the answers come in the order of the items.

No queue and no pool: a pipe to each, which holds back whoever is too far ahead, and breaks with this process however it ends, so that
nobody plays on for nobody.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Sequence
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from typing import TypeVar

from kstreams_assign.errors import SimulationStuck

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def across(jobs: int, work: Callable[[Item], Answer], items: Sequence[Item]) -> Generator[Answer, None, None]:
    """``map(work, items)``. ``work`` is a function of a module; what it is called with and answers can be pickled.

    The processes end with the iterator, also when it is closed early. Ctrl-C is this process's alone. Raises ``SimulationStuck`` if
    one of them dies.
    """
    context = get_context("spawn")  # nothing is inherited, above all no other one's end of a pipe
    processes, answers = [], []
    resource_tracker.ensure_running()  # which lets SIGINT through again, so not within _start
    try:
        for number in range(jobs):
            here, there = context.Pipe(duplex=False)
            answers.append(here)
            process = context.Process(target=_play, args=(there, work, items[number::jobs]), daemon=True)
            processes.append(process)
            _start(process.start)
            there.close()
        for number in range(len(items)):
            yield answers[number % jobs].recv()
    except EOFError:
        raise SimulationStuck(
            "a process that played seeds has died; its own error is above, if it had time for one"
        ) from None
    finally:
        for process in processes:
            if process.pid is not None:
                process.terminate()
                process.join()


def _start(start: Callable[[], None]) -> None:
    """Whoever is started while SIGINT is held back never hears of it, from its first instruction on."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _play(answers: Connection, work: Callable[[Item], Answer], items: Sequence[Item]) -> None:
    try:
        for item in items:
            answers.send(work(item))
    except BrokenPipeError:  # nobody listens any more
        return
