"""Files and sockets of this process alone: a forked child closes its copies at once.

A lock (``flock``) and a listening socket last as long as any process has the descriptor. A child that outlives its
parent, as a child of ``multiprocessing`` does after a SIGKILL, would keep both for a dead process. Executed programs
inherit neither: Python opens everything close-on-exec.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar
from weakref import WeakSet


class Closeable(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=Closeable)

_open: WeakSet[Closeable] = WeakSet()
_opening = threading.Lock()
"""Keeps a fork from happening between the opening of a file and its entry in ``_open``."""


def open_unshared(make: Callable[[], T]) -> T:
    """Return the file or socket that ``make`` opens; forked children close their copy of it.

    Their close leaves this process's descriptor, and its lock, alone.
    """
    with _opening:
        made = make()
        _open.add(made)
    return made


def _close_in_child() -> None:
    for inherited in list(_open):
        inherited.close()
    _open.clear()
    _opening.release()


os.register_at_fork(before=_opening.acquire, after_in_parent=_opening.release, after_in_child=_close_in_child)
