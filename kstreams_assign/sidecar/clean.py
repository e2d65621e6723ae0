"""``kstreams-assign clean``, the work: settings in, the entries of the directory out. ``command`` has the options."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.adapters.rocksdb import read_unlogged
from kstreams_assign.config import Config
from kstreams_assign.errors import ConfigError, StateError
from kstreams_assign.model import TaskId
from kstreams_assign.observe.reasons import span
from kstreams_assign.sidecar.settings import read_toml
from kstreams_assign.state.cleaning import Selection, StateEntry, clean, survey

UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def clean_up(
    path: Path, overrides: Sequence[str], tasks: Sequence[str], older_than: str | None, *, dry_run: bool
) -> tuple[Config, list[StateEntry]]:
    """Survey or clean the state directory of these settings. Raises as ``state.cleaning`` does, and ``ConfigError``."""
    settings = read_toml(path, overrides)
    config = Config.from_mapping({key: value for key, value in settings.items() if key != "topology"})
    selection = Selection(
        [TaskId.parse(name) for name in tasks],
        0 if older_than is None else duration_ms(older_than),
        unrestorable,
    )
    where = Path(config.state_dir), config.application_id
    return config, survey(*where, selection, wall_ms()) if dry_run else clean(*where, selection, wall_ms)


def unrestorable(folder: Path) -> str | None:
    """Return why a task's state could not be restored, as the folder says it: the topology is code in most programs."""
    try:
        stores = read_unlogged(folder)
    except StateError as error:
        return f"whether it could be restored cannot be read: {error}"
    return f"no changelog holds {', '.join(stores)}, so it cannot be restored" if stores else None


def duration_ms(text: str) -> int:
    """Parse ``7d``, ``12h``, ``30m``, ``45s`` or ``500ms``. Raises ``ConfigError``."""
    parsed = re.fullmatch(r"([0-9]+)(ms|s|m|h|d)", text)
    if parsed is None:
        raise ConfigError(f"--older-than {text}: must be a number with a unit of {', '.join(UNITS_MS)}, as in 7d")
    return int(parsed[1]) * UNITS_MS[parsed[2]]


def as_json(config: Config, entries: Sequence[StateEntry], *, dry_run: bool) -> str:
    """Return one JSON object; ``freed_bytes``: the size of what was removed, or would be."""
    folders = [
        {
            "name": entry.name,
            "task": None if entry.task is None else str(entry.task),
            "bytes": entry.size_bytes,
            "idle_ms": entry.idle_ms,
            "goes": entry.goes,
            "why": entry.why,
        }
        for entry in entries
    ]
    facts = {"application_id": config.application_id, "state_dir": config.state_dir, "dry_run": dry_run}
    return json.dumps({**facts, "freed_bytes": freed_bytes(entries), "folders": folders})


def as_lines(entries: Sequence[StateEntry], *, dry_run: bool) -> list[str]:
    """Return a line for each entry, and the total."""
    removed, freed = ("would be removed", "would be freed") if dry_run else ("removed", "freed")
    width = max((len(entry.name) for entry in entries), default=0)
    lines = [
        f"{entry.name:<{width}}  {size_text(entry.size_bytes):>9}  {idle_text(entry.idle_ms):>9}  "
        f"{removed if entry.goes else 'stays'}: {entry.why}"
        for entry in entries
    ]
    return [
        *lines,
        f"{size_text(freed_bytes(entries))} {freed}, {sum(entry.goes for entry in entries)} of {len(entries)} entries",
    ]


def freed_bytes(entries: Sequence[StateEntry]) -> int:
    return sum(entry.size_bytes for entry in entries if entry.goes)


def refuse_left_overs(planned: Sequence[StateEntry]) -> None:
    """After a clean: raise ``StateError`` if an entry could not be removed."""
    if left := [entry.name for entry in planned if entry.failed]:
        raise StateError(f"could not be removed: {', '.join(left)}; look at their owner and permissions")


def size_text(size_bytes: int) -> str:
    """Format a size in the largest unit that leaves a number of at least 1."""
    size, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.1f} {unit}" if unit != "B" else f"{size_bytes} B"


def idle_text(idle_ms: int | None) -> str:
    """Format a duration; ``-`` if it is unknown."""
    return "-" if idle_ms is None else span(idle_ms)
