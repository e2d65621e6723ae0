"""Run a worker process of the demo: ``python -m kstreams_assign.demo.worker``; ``--help`` lists the options.

Runs the application of ``app`` until SIGTERM or SIGINT, or until standard input ends, as it does when its parent ends.
Events go to standard output, one JSON object per line. A line ``rejoin`` on standard input asks for a rebalance, a line
``drain`` for a leave without a gap.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from threading import Thread
from typing import TextIO

from kstreams_assign import Config, Event, Worker
from kstreams_assign.demo.app import PROCESS_NAME_BYTES, totals_app

REJOIN = "rejoin"
DRAIN = "drain"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a worker until it is asked to stop. An error that ends it is raised."""
    given = _parser().parse_args(arguments)
    settings = dict(setting.split("=", 1) for setting in given.set)
    config = Config.from_mapping(
        {
            "application_id": given.application_id,
            "bootstrap_servers": given.bootstrap,
            "state_dir": given.state_dir,
            **{key: _value(text) for key, text in settings.items()},
        }
    )
    worker = Worker(config, [totals_app(given.application_id, given.name)], on_event=_print)
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda _number, _frame: worker.close())
    Thread(target=_obey, args=(worker, sys.stdin), name="control", daemon=True).start()
    worker.run()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kstreams_assign.demo.worker", description=__doc__)
    parser.add_argument("--bootstrap", required=True, help="the broker, host:port")
    parser.add_argument("--application-id", required=True, help="the group, and the prefix of its topics")
    parser.add_argument("--name", required=True, help=f"signs the output; {PROCESS_NAME_BYTES} bytes at most")
    parser.add_argument("--state-dir", required=True, help="folder for the stores; this worker's alone")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of Config")
    return parser


def _value(text: str) -> int | bool | str:
    return int(text) if text.isdecimal() else {"true": True, "false": False}.get(text, text)


def _print(event: Event) -> None:
    print(json.dumps(event.as_dict()), flush=True)


def _obey(worker: Worker, control: TextIO) -> None:
    for line in control:
        if line.strip() == REJOIN:
            worker.rejoin("asked to")
        elif line.strip() == DRAIN:
            worker.drain()
    worker.close()


if __name__ == "__main__":
    main()
