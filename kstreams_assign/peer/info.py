"""The peer's description: versions, assignors, machine."""

from __future__ import annotations

import os
import platform
from importlib import metadata

from kstreams_assign.assign import ASSIGNORS
from kstreams_assign.peer.lines import Json
from kstreams_assign.wire import LATEST_SUPPORTED_VERSION


def info() -> Json:
    return {
        "kstreams_assign": metadata.version("kstreams-assign"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "protocol_version": LATEST_SUPPORTED_VERSION,
        "assignors": list(ASSIGNORS),
        "processors": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2),
    }
