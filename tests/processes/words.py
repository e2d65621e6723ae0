"""The counting application of these tests, as a module that ``kstreams-assign run`` imports.

Settings come from the environment: ``WORDS_SETTINGS``, a JSON object.
"""

from __future__ import annotations

import json
import os

from kstreams_assign import Config, Subtopology, Worker
from tests.worker.app import count

SETTINGS = json.loads(os.environ["WORDS_SETTINGS"])
TOPIC = SETTINGS["application_id"]


def make_worker() -> Worker:
    topology = [Subtopology(count, sources=[TOPIC], stores=["totals"], sinks=[f"{TOPIC}-counts"])]
    return Worker(Config.from_mapping(SETTINGS), topology)


worker = make_worker() if os.environ.get("WORDS_AT_IMPORT") else None
