"""Checks of the user's functions: of each where it is declared, and of what a call returns.

A function that awaits or yields runs no code when it is called. Some show it when they are declared; a lambda, or a
decorator that passes a call on, only by what it returns.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from kstreams_assign.errors import ConfigError


def refuse_no_function(key: str, function: object, arguments: Sequence[str]) -> None:
    """Raise ``ConfigError`` for what cannot be called with these arguments, or would do nothing if it were."""
    required = f"must be a function ({', '.join(arguments)})"
    if not callable(function):
        raise ConfigError(f"{key} = {function!r}: {required}")
    name = getattr(function, "__qualname__", repr(function))
    if _runs_no_code(function) or _runs_no_code(type(function).__call__):
        raise ConfigError(f"{key} = {name}: {required} without await and yield; a call of it would not run its code")
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return  # some builtins have none
    try:
        signature.bind(*arguments)
    except TypeError:
        raise ConfigError(f"{key} = {name}{signature}: {required}") from None


def refuse_no_listener(on_event: object) -> None:
    """Raise ``ConfigError`` for what is not None and cannot be a listener."""
    if on_event is not None:
        refuse_no_function("on_event", on_event, ("event",))


def _runs_no_code(function: object) -> bool:
    """Return whether a call would only make a coroutine or a generator."""
    return (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    )


def refuse_unrun(call: str, returned: object) -> None:
    """Raise ``ConfigError`` if a call returned code that has not begun; anything else that it returned is ignored."""
    if inspect.iscoroutine(returned) and inspect.getcoroutinestate(returned) == inspect.CORO_CREATED:
        kind = "a coroutine"
        returned.close()  # else Python warns that it was never awaited
    elif inspect.isgenerator(returned) and inspect.getgeneratorstate(returned) == inspect.GEN_CREATED:
        kind = "a generator"
    elif inspect.isasyncgen(returned):
        kind = "an asynchronous generator"
    else:
        return
    name = getattr(returned, "__qualname__", type(returned).__name__)
    raise ConfigError(
        f"{call} returned {kind} ({name}): must be a function without await and yield; its code did not run"
    )
