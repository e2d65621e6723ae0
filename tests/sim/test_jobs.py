"""Seeds in several processes: answers in order, and no process is left at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from multiprocessing import active_children

import pytest

from kstreams_assign.errors import SimulationStuck
from kstreams_assign.sim.jobs import across


def doubled(number):
    return 2 * number


def dies_at_three(number):
    if number == 3:
        os._exit(7)
    return number


def test_answers_come_in_the_order_of_the_items_and_no_process_is_left():
    assert list(across(2, doubled, range(5))) == [0, 2, 4, 6, 8]
    assert active_children() == []


def test_closing_the_iterator_ends_the_processes():
    with closing(across(2, doubled, range(10**9))) as answers:
        assert [next(answers), next(answers)] == [0, 2]
        assert len(active_children()) == 2
    assert active_children() == []


def test_a_process_that_dies_is_an_error():
    answers = across(2, dies_at_three, range(100))
    assert [next(answers) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(SimulationStuck, match="has died"):
        next(answers)
    assert active_children() == []


def test_ctrl_c_prints_the_result_so_far_and_leaves_no_process():
    command = [sys.executable, "-m", "kstreams_assign", "simulate", "--count", "100000", "--jobs", "2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes, start_new_session=True) as process:
        assert process.stderr.readline().partition(" of ")[2].startswith("100,000 seeds, 0 failed; ")
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        output, errors = process.communicate(timeout=110)  # no process holds the pipes
    assert (process.returncode, " of 100000 seeds, 0 failed; " in output) == (130, True), errors
    assert "interrupted after" in errors
    assert "Traceback" not in errors
