"""Spread work over processes of this machine: each takes every n-th item; answers come in the order of the items.

No queue and no pool: a pipe from each process. It blocks a process that is too far ahead, and breaks when this process
ends, for whatever reason, so that no child works on.
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
    """Yield ``map(work, items)``. ``work`` is a function of a module; items and answers can be pickled.

    The processes end with the iterator, also when it is closed early. Only this process reacts to Ctrl-C. Raises
    ``SimulationStuck`` if a process dies.
    """
    context = get_context("spawn")  # nothing is inherited, above all no end of another process' pipe
    processes, answers = [], []
    resource_tracker.ensure_running()  # it unblocks SIGINT, so it must not happen within _start
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
            "a process that simulated seeds has died; see its error above, or the kernel's log if it was killed"
        ) from None
    finally:
        for process in processes:
            if process.pid is not None:
                process.terminate()
                process.join()


def _start(start: Callable[[], None]) -> None:
    """Start a process with SIGINT blocked, so that it ignores Ctrl-C from its first instruction on."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _play(answers: Connection, work: Callable[[Item], Answer], items: Sequence[Item]) -> None:
    try:
        for item in items:
            answers.send(work(item))
    except BrokenPipeError:  # the iterator was closed
        return
