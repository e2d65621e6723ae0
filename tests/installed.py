"""The wheel as users install it: built from the checkout, in environments of its own, without the network.

Such an environment shares the locked packages by a path entry; that entry's own ``.pth`` files, the checkout's among
them, are not read. So ``kstreams_assign`` can only come from the wheel.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(*command: str | Path, folder: Path) -> str:
    """Run a command to its end; return what it printed."""
    brief = os.environ | {"HYPOTHESIS_PROFILE": "brief"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=550, check=False, env=brief)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build_wheel(folder: Path) -> Path:
    """Build the wheel into an empty folder."""
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, folder=folder)
    (built,) = folder.glob("*.whl")
    return built


def install_wheel(wheel: Path, home: Path) -> Path:
    """Make an environment that holds the wheel and sees the locked packages; return its Python."""
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", wheel, folder=home)
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=home).strip()
    Path(site, "locked.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python
