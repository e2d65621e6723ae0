"""A signal that another thread receives, or that interrupts a wait at any place, ends the wait of the main thread."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from kstreams_assign.adapters import signals
from kstreams_assign.adapters.signals import EndRequest

PATIENCE_S = 60

RECEIVED_BY_ANOTHER_THREAD = """
import signal, threading
from kstreams_assign.adapters.signals import EndRequest

end = EndRequest()
signal.signal(signal.SIGTERM, lambda *_: end.set())

def receive():
    threading.Event().wait(0.3)  # the main thread waits by then
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    threading.Event().wait()

threading.Thread(target=receive, daemon=True).start()
assert end.wait()
"""

AT_ANY_PLACE = """
import os, signal, threading
from kstreams_assign.adapters.signals import EndRequest

ends = [EndRequest()]
signal.signal(signal.SIGALRM, lambda *_: ends[0].set())
signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
for _ in range(3_000):
    while not ends[0].wait(0.00001):
        pass
    ends[0] = EndRequest()
signal.setitimer(signal.ITIMER_REAL, 0)
"""


@pytest.mark.parametrize("program", [RECEIVED_BY_ANOTHER_THREAD, AT_ANY_PLACE], ids=["another thread", "any place"])
def test_a_signal_ends_the_wait_of_the_main_thread(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE_S)


def test_every_thread_that_waits_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices as short as they can be: the request often comes just when a thread's slice ends."""
    monkeypatch.setattr(signals, "_SLICE_S", 0.0005)
    for _ in range(500):
        end = EndRequest()
        waits = [threading.Thread(target=end.wait, daemon=True) for _ in range(4)]
        for thread in waits:
            thread.start()
        end.wait(0.002)
        end.set()
        end.set()
        for thread in waits:
            thread.join(PATIENCE_S)
        assert not any(thread.is_alive() for thread in waits)


def test_a_wait_ends_when_its_time_is_over_or_when_any_thread_asks() -> None:
    end = EndRequest()
    assert (end.is_set(), end.wait(0.01), end.wait(0)) == (False, False, False)
    waits = [threading.Thread(target=end.wait) for _ in range(2)]
    for thread in waits:
        thread.start()
    end.set()
    for thread in waits:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in waits)
    assert (end.is_set(), end.wait(0), end.wait()) == (True, True, True)
