"""The processes of an application on this machine, as the commands find them: by a settings file, or without one.

What must not live here: what a command asks of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kstreams_assign.errors import ConfigError, WorkerNotRunning


@dataclass(frozen=True, slots=True)
class LocalProcess:
    """A running process: its state directory ``root``, the application's folder in it, and its pid."""

    root: Path
    folder: Path
    application_id: str
    pid: int

    @property
    def runs(self) -> bool:
        from kstreams_assign.state.directory import holder_of

        return holder_of(self.root, self.application_id) == self.pid


def local_processes(
    config: Path | None, overrides: Sequence[str], application_id: str | None, state_dir: str | None
) -> list[LocalProcess]:
    """Return the application's processes on this machine. Raises ``WorkerNotRunning`` if there is none."""
    from kstreams_assign.sidecar.settings import SidecarSettings
    from kstreams_assign.state.directory import application_folder, holder_of, roots_of_processes

    if config is not None:
        if application_id is not None or state_dir is not None:
            raise ConfigError("--application-id, --state-dir: must be left out with --config, which has them")
        settings = SidecarSettings.from_toml(config, overrides).config
        application_id, state_dir = settings.application_id, settings.state_dir
    if application_id is None or state_dir is None:
        raise ConfigError("--config: is missing; give it, or both --application-id and --state-dir")
    root = Path(state_dir)
    processes = [
        LocalProcess(each, application_folder(each, application_id), application_id, pid)
        for each in roots_of_processes(root, application_id)
        if (pid := holder_of(each, application_id)) is not None
    ]
    if not processes:
        raise WorkerNotRunning(f"no worker of {application_id!r} runs on state_dir = {str(root.absolute())!r}")
    return processes
