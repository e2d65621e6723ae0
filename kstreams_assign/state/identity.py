"""The process id, which must not change: the group sorts by it, and with another id a process gets other tasks.

It is random and kept in a file, or derived from a stable name (``process_name``, a pod's name): then it also survives
the loss of the volume. Decisions about tasks do not belong here.
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
    """The id, and warnings for the operator about where it comes from."""

    process_id: uuid.UUID
    warnings: tuple[str, ...] = ()


def derived_id(application_id: str, process_name: str) -> uuid.UUID:
    """Return the id of a process name: UUID version 5 over the application id and the name."""
    return uuid.uuid5(uuid.uuid5(_NAMESPACE, application_id), process_name)


def identify(
    folder: Path, application_id: str, process_name: str | None, *, last_known: uuid.UUID | None, tasks_on_disk: int
) -> Identity:
    """Return this process's id, and keep it in ``folder``.

    ``last_known``: the id in the directory's journal; ``tasks_on_disk``: the number of tasks with state there. If
    either is given, a missing file is reported. The journal's id is not used on its own: to give a copied volume an id
    of its own, an operator removes the file. Raises ``OSError``.
    """
    path = folder / FILE
    kept = read_json(path)
    old = _id_of(kept)
    named = None if process_name is None else derived_id(application_id, process_name)
    new = named or old or uuid.uuid4()
    if new != old or kept.get("process_name") != process_name:
        warning = _warning(path, kept, old, new, process_name, last_known, tasks_on_disk)
        keep(folder, new, process_name)
        return Identity(new, () if warning is None else (warning,))
    return Identity(new)


def keep(folder: Path, process_id: uuid.UUID, process_name: str | None) -> None:
    """Write the id to the directory. Raises ``OSError``."""
    name_entry = {} if process_name is None else {"process_name": process_name}
    _write_durably(folder / FILE, json.dumps({"version": _VERSION, "process_id": str(process_id), **name_entry}))


def _warning(
    path: Path,
    kept: dict[str, object],
    old: uuid.UUID | None,
    new: uuid.UUID,
    name: str | None,
    last_known: uuid.UUID | None,
    tasks_on_disk: int,
) -> str | None:
    """Return a warning if the id has changed; None if it has not, or if there was none."""
    if old is not None:
        why = f"{path.absolute()} has {_named(old, kept.get('process_name'))}, process_name = {name!r} gives {new}"
    elif path.exists():
        why = f"{path.absolute()} is damaged"
    elif tasks_on_disk or last_known:
        why = f"{path.absolute()} is missing, but the directory has state of {tasks_on_disk} tasks"
    else:
        return None
    before = old or last_known
    if before == new:
        return None
    remedy = f'To keep the old id, stop the process and write {{"process_id": "{before or "..."}"}} to that file'
    remedy += "" if name is None else ", and remove the setting process_name"
    remedy += "" if name is not None else "; with the setting process_name the id does not depend on this file"
    return (
        f"the process id is now {new}; before it was {before or 'unknown'}: {why}. The group takes this for another "
        f"process, so tasks may move once. {remedy}"
    )


def _named(process_id: uuid.UUID, name: object) -> str:
    return f"{process_id} (process_name = {name!r})" if name else str(process_id)


def _id_of(kept: dict[str, object]) -> uuid.UUID | None:
    """Return the id in the file; later versions only add fields, so any version is read."""
    try:
        return uuid.UUID(str(kept["process_id"]))
    except (KeyError, ValueError):
        return None


def _write_durably(path: Path, text: str) -> None:
    """Write the file atomically, also if the machine stops."""
    draft = path.with_name(path.name + ".draft")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
