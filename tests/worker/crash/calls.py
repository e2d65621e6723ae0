"""Count a worker's I/O calls where its adapters meet a client library, a store or a file; kill it at one of them.

``install`` replaces the libraries' classes in the adapters' modules by counting ones, and the functions of ``os`` and
for the files below one folder. The product does not know of it. A call site is the method that was called, and
the place outside ``adapters`` and ``state`` that called it. A call that returns nothing (a poll of an empty queue) does
not count: such counts would differ from run to run.
"""

from __future__ import annotations

import builtins
import io
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from functools import wraps
from types import FrameType, ModuleType
from typing import Any, Self, TypeVar

import confluent_kafka
import rocksdict
from confluent_kafka.admin import AdminClient

from kstreams_assign.adapters import rocksdb as rocksdb_adapter
from kstreams_assign.adapters.kafka_python import admin as admin_adapter
from kstreams_assign.adapters.kafka_python import membership as membership_adapter
from kstreams_assign.worker import membership as member
from tests.worker.crash.points import Point, Recording

T = TypeVar("T")

POLLS = frozenset({"Producer.poll", "Consumer.consume"})
"""Count once they brought something."""

PRODUCER = (
    *("produce", "flush", "poll", "purge", "close", "init_transactions", "begin_transaction"),
    *("send_offsets_to_transaction", "commit_transaction", "abort_transaction"),
)
CONSUMER = ("consume", "incremental_assign", "incremental_unassign", "list_topics", "committed", "close")
ADMIN = ("describe_topics", "create_topics", "list_offsets", "list_topics", "describe_configs", "delete_records")
STORE = frozenset(
    {"write", "put", "delete", "flush", "close", "drop_column_family", "create_column_family", "flush_wal"}
)
GROUP = ("__init__", "join", "commit", "close")
GROUP_ADMIN = ("__init__", "remove_group_members", "list_group_offsets", "close")
"""Of kafka-python: LeaveGroup for a dead member, and what stands beside committed offsets."""
CALLBACKS = ("subscription", "lead", "assigned")
"""Of the membership: asked by the client just before JoinGroup, before SyncGroup, and with the assignment."""
FILES = ("mkdir", "rename", "replace", "unlink", "remove", "rmdir", "fsync", "ftruncate", "truncate", "write", "utime")
"""``os.open`` and ``os.pwrite`` belong to the journal alone: ``tests.state.crashing`` dies at each of those."""
_ROOMS = ("/kstreams_assign/adapters/", "/kstreams_assign/state/", "/kstreams_assign/tasks/record_cache.py")


class Watch:
    """Counts the calls of one process by ``phase``, and kills the process at ``point``, if there is one."""

    def __init__(self, point: Point | None, phase: str) -> None:
        self.phase = phase
        self._point = point
        self._counts: Counter[tuple[str, str]] = Counter()
        self._guard = threading.Lock()

    def seen(self) -> Recording:
        with self._guard:
            return dict(self._counts)

    def count(self, phase: str, name: str) -> int:
        """Return how many calls of this method came so far, from all places."""
        return sum(n for (where, site), n in self.seen().items() if where == phase and site.endswith(f": {name}"))

    def call(self, name: str, work: Callable[[], T]) -> T:
        """Do the work, and count the call if it comes from the product."""
        caller = _caller()
        if caller is None:
            return work()
        site, phase = f"{caller}: {name}", self.phase
        if name in POLLS:
            result = work()
            if result:
                self._end_at(phase, site, self._next(phase, site), "after")
            return result
        nth = self._next(phase, site)
        self._end_at(phase, site, nth, "before")
        try:
            return work()
        finally:  # whether or not the call failed
            self._end_at(phase, site, nth, "after")

    def _next(self, phase: str, site: str) -> int:
        with self._guard:
            self._counts[phase, site] += 1
            return self._counts[phase, site]

    def _end_at(self, phase: str, site: str, nth: int, side: str) -> None:
        point = self._point
        if point is not None and (point.phase, point.site, point.nth, point.side) == (phase, site, nth, side):
            os.kill(os.getpid(), signal.SIGKILL)


def after_only(seen: Recording) -> frozenset[str]:
    """Return the sites at which a process dies only after the call."""
    return frozenset(site for _, site in seen if site.rpartition(": ")[2] in POLLS)


def install(watch: Watch, folder: str) -> None:
    """Count from now on; of files only those below ``folder``. Call it once a process, before the worker is made."""
    for library_class, names in (
        (confluent_kafka.Producer, PRODUCER),
        (confluent_kafka.Consumer, CONSUMER),
        (AdminClient, ADMIN),
    ):
        _replace_in_adapters(library_class, _counting_class(watch, library_class, names))
    _replace_in_adapters(rocksdict.Rdict, _counting_store(watch))
    for owner, names in (
        (membership_adapter.GroupClient, GROUP),
        (admin_adapter.Admin, GROUP_ADMIN),
        (member.Membership, CALLBACKS),
    ):
        for name in names:
            setattr(owner, name, _counted(watch, owner.__name__, _method(owner, name)))
    _count_files(watch, folder)


def _caller() -> str | None:
    """Return the function of the product that made this call, if possible one outside the rooms of the libraries."""
    caller: str | None = None
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        path = frame.f_code.co_filename
        if "/kstreams_assign/" in path:
            caller = frame.f_code.co_qualname.replace(".<locals>.<lambda>", "").replace(".<locals>", "")
            if not any(room in path for room in _ROOMS):
                return caller
        frame = frame.f_back
    return caller


def _replace_in_adapters(library_class: type, counting: object) -> None:
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and module.__name__.startswith("kstreams_assign.adapters"):
            for name in [name for name, value in vars(module).items() if value is library_class]:
                setattr(module, name, counting)


def _method(owner: type, name: str) -> Callable[..., Any]:
    assert hasattr(owner, name), f"{owner.__name__} has no {name}, so no process would die there"
    method: Callable[..., Any] = getattr(owner, name)
    return method


def _counted(watch: Watch, owner: str, method: Callable[..., T]) -> Callable[..., T]:
    @wraps(method)
    def counted(*args: Any, **kwargs: Any) -> T:
        return watch.call(f"{owner}.{method.__name__}", lambda: method(*args, **kwargs))

    return counted


def _counting_class(watch: Watch, base: type, names: tuple[str, ...]) -> type:
    methods = {name: _counted(watch, base.__name__, _method(base, name)) for name in names}
    return type(base.__name__, (base,), methods)


def _counting_store(watch: Watch) -> Any:
    """Return a counting database; it wraps one, because ``Rdict`` cannot be inherited from."""
    for name in STORE:
        _method(rocksdict.Rdict, name)

    class Store:
        list_cf = staticmethod(rocksdict.Rdict.list_cf)

        def __init__(self, *args: Any) -> None:
            self._store = watch.call("Rdict.open", lambda: rocksdict.Rdict(*args))

        def get_column_family(self, name: str) -> Store:
            family = object.__new__(Store)
            family._store = self._store.get_column_family(name)
            return family

        def __getattr__(self, name: str) -> Any:
            method = getattr(self._store, name)
            return _counted(watch, "Rdict", method) if name in STORE else method

    return Store


def _count_files(watch: Watch, folder: str) -> None:
    for name in FILES:
        setattr(os, name, _counted_file_call(watch, folder, getattr(os, name)))
    opener = _counted_open(watch, folder, io.open)
    io.open = builtins.open = opener  # type: ignore[assignment]


def _counted_file_call(watch: Watch, folder: str, function: Callable[..., T]) -> Callable[..., T]:
    @wraps(function)
    def counted(target: Any, *args: Any, **kwargs: Any) -> T:
        # A number is an open file, and a relative name is below it; the product opens none outside its folder.
        if not (isinstance(target, int) or "dir_fd" in kwargs or str(target).startswith(folder)):
            return function(target, *args, **kwargs)
        return watch.call(f"os.{function.__name__}", lambda: function(target, *args, **kwargs))

    return counted


def _counted_open(watch: Watch, folder: str, opened: Callable[..., Any]) -> Callable[..., Any]:
    def counted(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if set(mode) <= set("rbt") or not str(file).startswith(folder):
            return opened(file, mode, *args, **kwargs)
        return _File(watch, watch.call("open to write", lambda: opened(file, mode, *args, **kwargs)))

    return counted


class _File:
    """An open file that counts its writes."""

    def __init__(self, watch: Watch, file: Any) -> None:
        self._watch = watch
        self._file = file

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._file, name)
        return _counted(self._watch, "file", method) if name in {"write", "flush", "truncate", "close"} else method

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


assert rocksdb_adapter  # the module must be imported when classes are replaced
