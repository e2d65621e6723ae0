"""Damage a state directory between a kill and the next start: flip bytes, truncate or remove files."""

from __future__ import annotations

from pathlib import Path
from random import Random


def damage(folder: Path, salt: int) -> list[str]:
    """Damage one to three files below ``folder``; return the actions, for the log."""
    draw = Random(salt)
    done = []
    for _ in range(draw.randint(1, 3)):
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        if files:
            path = draw.choice(files)
            how = draw.choice((_flip, _cut, _remove))
            done.append(f"{how(path, draw)} {path.relative_to(folder)}")
    return done


def _flip(path: Path, draw: Random) -> str:
    content = bytearray(path.read_bytes())
    for _ in range(min(8, len(content))):
        content[draw.randrange(len(content))] ^= draw.randint(1, 255)
    path.write_bytes(content)
    return "flipped bytes of"


def _cut(path: Path, draw: Random) -> str:
    size = path.stat().st_size
    left = draw.randrange(size) if size else 0
    with path.open("r+b") as file:
        file.truncate(left)
    return f"cut to {left} of {size} bytes:"


def _remove(path: Path, _draw: Random) -> str:
    path.unlink()
    return "removed"
