"""Find an application by its name, ``MODULE:WORKER``, in a process that is to run it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from importlib import import_module
from inspect import signature
from pathlib import Path
from traceback import extract_tb
from typing import Any

from kstreams_assign.errors import ConfigError, missing_extra
from kstreams_assign.worker.stream_worker import Worker

EXPECTED = "must be a Worker, or a function without arguments that returns one"


def refuse_malformed(application: str) -> None:
    """Raise ``ConfigError`` for a text that cannot be ``MODULE:WORKER``."""
    module, colon, name = application.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        raise ConfigError(f"{application!r}: write MODULE:WORKER, as in app:worker for worker = Worker(...) in app.py")


def load_worker(application: str, folder: str) -> Worker:
    """Import the module, with ``folder`` first on the import path, and return its worker.

    The name is that of a ``Worker``, or of a function without arguments that returns one. Raises ``ConfigError`` where
    it is neither, or the module or one that it imports cannot be found or read, and whatever the module itself raises.
    """
    refuse_malformed(application)
    sys.path.insert(0, str(Path(folder).absolute()))
    module_name, _, name = application.partition(":")
    try:
        module = _module(module_name, folder)
        try:
            value = reduce(getattr, name.split("."), module)
        except AttributeError as cause:
            raise ConfigError(f"{application!r}: the module {module_name!r} has no {name!r}: {cause}") from cause
        worker = value if isinstance(value, Worker) or not callable(value) else _call(value, application)
    except ModuleNotFoundError as cause:
        if cause.name is None:
            raise  # raised by hand
        raise _missing_import(cause) from cause
    except ImportError as cause:
        if cause.name is None:
            raise  # raised by hand
        raise ConfigError(f"{_place_of(cause)} cannot import: {cause}") from cause
    if not isinstance(worker, Worker):
        what = f"{name} is" if worker is value else f"{name}() returned"
        raise ConfigError(f"{application!r}: {what} a value of type {type(worker).__name__}: {EXPECTED}")
    return worker


def _call(make: Callable[..., object], application: str) -> object:
    """Call ``make``. Raises ``ConfigError`` if it cannot be called without arguments."""
    try:
        with suppress(ValueError):  # a callable without a known signature, such as dict
            signature(make, follow_wrapped=False).bind()  # a decorator may give what the function needs
    except TypeError as cause:
        raise ConfigError(f"{application!r}: {application.partition(':')[2]}(): {cause}: {EXPECTED}") from cause
    return make()


def _missing_import(cause: ModuleNotFoundError) -> ConfigError:
    """Return the refusal of a module that imports one that cannot be found, with the place of the import."""
    return missing_extra(cause) or ConfigError(
        f"{_place_of(cause)} imports the module {cause.name!r}, which is not on the import path; install it"
    )


def _place_of(cause: ImportError) -> str:
    """Return the file and line of an import."""
    place = [frame for frame in extract_tb(cause.__traceback__) if not frame.filename.startswith("<frozen ")][-1]
    return f"{place.filename}:{place.lineno}"


def _module(name: str, folder: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as cause:
        if cause.name is None or not f"{name}.".startswith(f"{cause.name}."):
            raise  # the module is there, and imports one that is not
        raise ConfigError(
            f"there is no module {cause.name!r} in {str(Path(folder).absolute())!r} or on the import path; start the "
            "command in its folder, or name that with --app-dir"
        ) from cause
    except SyntaxError as cause:
        raise ConfigError(
            f"the module {name!r} cannot be read: {cause.filename}:{cause.lineno}: {cause.msg}"
        ) from cause
