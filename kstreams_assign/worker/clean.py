"""``kstreams-assign clean``, the work: settings in, what is there and what goes out. The words are in ``command``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from kstreams_assign.adapters.clock import wall_ms
from kstreams_assign.config import Config
from kstreams_assign.errors import ConfigError, StateError
from kstreams_assign.model import TaskId
from kstreams_assign.observe.reasons import span
from kstreams_assign.state.cleaning import Found, Wanted, clean, survey
from kstreams_assign.topology.flows import Flow
from kstreams_assign.worker.sidecar.settings import read_toml, read_topology

UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def clean_up(
    path: Path, told: Sequence[str], tasks: Sequence[str], older_than: str | None, *, dry_run: bool
) -> tuple[Config, list[Found]]:
    """Survey or clean the state directory of these settings. Raises as ``state.cleaning`` does, and ``ConfigError``."""
    settings = read_toml(path, told)
    config = Config.from_mapping({key: value for key, value in settings.items() if key != "topology"})
    flows = read_topology(settings["topology"]) if "topology" in settings else ()
    wanted = Wanted(
        [TaskId.parse(name) for name in tasks],
        0 if older_than is None else duration_ms(older_than),
        lambda task: unlogged(flows, task),
    )
    where = Path(config.state_dir), config.application_id
    return config, survey(*where, wanted, wall_ms()) if dry_run else clean(*where, wanted, wall_ms)


def unlogged(flows: Sequence[Flow], task: TaskId) -> list[str]:
    """The task's stores without a changelog, where the topology is known."""
    stores = flows[task.subtopology].shape.stores if task.subtopology < len(flows) else ()
    return [store.name for store in stores if not store.logged]


def duration_ms(text: str) -> int:
    """``7d``, ``12h``, ``30m``, ``45s`` or ``500ms``. Raises ``ConfigError``."""
    found = re.fullmatch(r"([0-9]+)(ms|s|m|h|d)", text)
    if found is None:
        raise ConfigError(f"--older-than {text}: must be a number with a unit of {', '.join(UNITS_MS)}, as in 7d")
    return int(found[1]) * UNITS_MS[found[2]]


def as_json(config: Config, found: Sequence[Found], *, dry_run: bool) -> str:
    """One object; ``freed_bytes`` is what goes, or went."""
    folders = [
        {
            "name": one.name,
            "task": None if one.task is None else str(one.task),
            "bytes": one.size_bytes,
            "idle_ms": one.idle_ms,
            "goes": one.goes,
            "why": one.why,
        }
        for one in found
    ]
    facts = {"application_id": config.application_id, "state_dir": config.state_dir, "dry_run": dry_run}
    return json.dumps({**facts, "freed_bytes": freed_bytes(found), "folders": folders})


def as_lines(found: Sequence[Found], *, dry_run: bool) -> list[str]:
    """A line an entry, and the sum."""
    goes, went = ("would go", "would be freed") if dry_run else ("gone", "freed")
    width = max((len(one.name) for one in found), default=0)
    lines = [
        f"{one.name:<{width}}  {size_text(one.size_bytes):>9}  {idle_text(one.idle_ms):>9}  "
        f"{goes if one.goes else 'stays'}: {one.why}"
        for one in found
    ]
    return [*lines, f"{size_text(freed_bytes(found))} {went}, {sum(one.goes for one in found)} of {len(found)} entries"]


def freed_bytes(found: Sequence[Found]) -> int:
    return sum(one.size_bytes for one in found if one.goes)


def refuse_left_overs(planned: Sequence[Found]) -> None:
    """After a clean: an error where something had to go and is still there. Raises ``StateError``."""
    if left := [one.name for one in planned if one.failed]:
        raise StateError(f"could not be removed: {', '.join(left)}; look at their owner and permissions")


def size_text(size_bytes: int) -> str:
    """In the largest unit that leaves a number of at least 1."""
    size, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.1f} {unit}" if unit != "B" else f"{size_bytes} B"


def idle_text(idle_ms: int | None) -> str:
    """How long; ``-`` where there is nothing to tell."""
    return "-" if idle_ms is None else span(idle_ms)
