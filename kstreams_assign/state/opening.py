"""Open a state directory with the settings, ready to be reported: state that is too old is removed first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kstreams_assign.config import Config
from kstreams_assign.model import TaskId
from kstreams_assign.state.cleaner import wipe_old
from kstreams_assign.state.directory import StateDirectory


def open_state(
    config: Config, *, clock_ms: Callable[[], int], wall_ms: Callable[[], int]
) -> tuple[StateDirectory, list[TaskId]]:
    """Return the directory, and the tasks whose state was removed for its age. Raises as ``StateDirectory`` does."""
    directory = StateDirectory(
        Path(config.state_dir),
        config.application_id,
        clock_ms=clock_ms,
        wall_ms=wall_ms,
        process_name=config.process_name,
    )
    return directory, wipe_old(directory, config.state_cleanup_dir_max_age_ms)
