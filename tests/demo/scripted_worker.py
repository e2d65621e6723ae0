"""A stand-in for a worker process: prints two events and half of a third, then obeys its command."""

from __future__ import annotations

import json
import os
import signal
import sys


def say(**facts):
    print(json.dumps({"time_ms": 1, "event": "said", **facts}), flush=True)


stubborn = "--stubborn" in sys.argv
signal.signal(signal.SIGTERM, signal.SIG_IGN if stubborn else lambda *_: sys.exit(0))
say(arguments=sys.argv[1:])
say(parent=os.getppid())
if "--cut" in sys.argv:
    print('{"time_ms": 1, "eve', end="", flush=True)
print("trouble", file=sys.stderr, flush=True)
if "--fail" in sys.argv:
    sys.exit(3)
if "--echo" in sys.argv:
    for line in sys.stdin:
        say(line=line.strip())
while True:
    signal.pause()
