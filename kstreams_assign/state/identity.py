"""The process id, which has to stay: the group sorts by it, and another id is another process with other tasks.

It is drawn once and kept in a file, or derived from a name that stays (``process_name``, a pod's name): then it also survives the
loss of the volume. What must not be here: anything that decides about tasks.
"""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import NamedTuple

from kstreams_assign.state.lock import read_json

FILE = "process"
_VERSION = 1
_NAMESPACE = uuid.UUID("b3d7b0a2-5d0e-5b2e-9f0b-8f6f0f2d9c41")


class Identity(NamedTuple):
    """The id, and what an operator should know of how it came about."""

    process_id: uuid.UUID
    warnings: tuple[str, ...] = ()


def derived_id(application_id: str, process_name: str) -> uuid.UUID:
    """The id that a name stands for: UUID version 5 over the application's id and the name."""
    return uuid.uuid5(uuid.uuid5(_NAMESPACE, application_id), process_name)


def identify(
    folder: Path, application_id: str, process_name: str | None, *, last_known: uuid.UUID | None, tasks_here: int
) -> Identity:
    """This process's id, kept in ``folder`` from now on.

    ``last_known`` is the id that the directory's journal tells of, ``tasks_here`` how many tasks have state there: with
    either, a missing file is told. The journal's id is not used unasked: whoever copies a volume removes the
    file so that the copy gets an id of its own. Raises ``OSError``.
    """
    path = folder / FILE
    kept = read_json(path)
    old = _id_of(kept)
    named = None if process_name is None else derived_id(application_id, process_name)
    new = named or old or uuid.uuid4()
    if new != old or kept.get("process_name") != process_name:
        warning = _warning(path, kept, old, new, process_name, last_known, tasks_here)
        keep(folder, new, process_name)
        return Identity(new, () if warning is None else (warning,))
    return Identity(new)


def keep(folder: Path, process_id: uuid.UUID, process_name: str | None) -> None:
    """Write it down. Raises ``OSError``."""
    named_so = {} if process_name is None else {"process_name": process_name}
    _write_durably(folder / FILE, json.dumps({"version": _VERSION, "process_id": str(process_id), **named_so}))


def _warning(
    path: Path,
    kept: dict[str, object],
    old: uuid.UUID | None,
    new: uuid.UUID,
    name: str | None,
    last_known: uuid.UUID | None,
    tasks_here: int,
) -> str | None:
    """What to say of an id that is not the one before; None if it is, or if there was none."""
    if old is not None:
        why = f"{path} says {_named(old, kept.get('process_name'))}, process_name = {name!r} stands for {new}"
    elif path.exists():
        why = f"{path} cannot be read"
    elif tasks_here or last_known:
        why = f"{path} is gone, while there is state of {tasks_here} tasks beside it"
    else:
        return None
    before = old or last_known
    if before == new:
        return None
    remedy = f'to keep the old id, stop the process, write {{"process_id": "{before or "..."}"}} there'
    remedy += "" if name is None else " and leave process_name out"
    remedy += "" if name is not None else "; with a process_name the id would not depend on this file"
    return (
        f"the process id is {new} from now on; before it was {before or 'not known'}: {why}. The group takes this for another "
        f"process, so tasks may move once; {remedy}"
    )


def _named(process_id: uuid.UUID, name: object) -> str:
    return f"{process_id} (process_name = {name!r})" if name else str(process_id)


def _id_of(kept: dict[str, object]) -> uuid.UUID | None:
    """Later versions of the file only add fields, so any version is read."""
    try:
        return uuid.UUID(str(kept["process_id"]))
    except (KeyError, ValueError):
        return None


def _write_durably(path: Path, text: str) -> None:
    """Whole or not at all, also when the machine stops."""
    draft = path.with_name(path.name + ".draft")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
