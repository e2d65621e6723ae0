"""A state directory opened as the settings say, ready to be reported: what is too old is gone already."""

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
    """The directory, and the tasks whose state was wiped for its age. Raises as ``StateDirectory`` does."""
    directory = StateDirectory(
        Path(config.state_dir),
        config.application_id,
        clock_ms=clock_ms,
        wall_ms=wall_ms,
        process_name=config.process_name,
    )
    return directory, wipe_old(directory, config.state_cleanup_dir_max_age_ms)
