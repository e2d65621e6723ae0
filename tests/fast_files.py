"""What keeps tests from waiting for the disk and from compiling: temporary files in memory, and stored byte code."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
MEMORY_BYTES = 4 * 2**30
"""Less free memory than this is left to the processes."""


def write_files_to_memory(memory: Path = MEMORY) -> None:
    """Let this process and those that it starts make their temporary files in memory, if enough of it is free.

    RocksDB and Kafka flush small files to the disk all the time, and then a test waits for the disk. The tests kill
    processes but not the machine, so they see the same files. ``TMPDIR`` in the environment names another folder.
    """
    if "TMPDIR" in os.environ or not memory.is_dir():
        return
    room = os.statvfs(memory)
    if room.f_bavail * room.f_frsize >= MEMORY_BYTES and not room.f_flag & os.ST_NOEXEC and os.access(memory, os.W_OK):
        os.environ["TMPDIR"] = str(memory)
        tempfile.tempdir = None  # pytest has asked for it already


def keep_byte_code() -> None:
    """Let this process and the hundreds that it starts store compiled modules.

    Without that each of them compiles the package, and each run rewrites the asserts of all tests.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
