"""A part that cannot run on this machine is named in one line, and fails the run where nothing may be left out."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.worker.app import until

ROOT = Path(__file__).parent.parent
LIMIT_S = 280
"""A run by several processes asks for every part first: it starts a Spark and compiles."""
pytestmark = pytest.mark.timeout(300)


def run_without_jars(*words: str, strict: str = "0") -> subprocess.CompletedProcess[str]:
    """Two of the files in ``tests/local``, one with the broker, where no jar can be cached."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    files = ["tests/local/test_broker.py", "tests/local/test_layout.py"]
    environment = os.environ | {"KSTREAMS_ASSIGN_CACHE": "/dev/null/none", "STRICT": strict}
    return subprocess.run(
        [*command, *files], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


def counted_without_the_part() -> str:
    """How many of their tests do not need it, as pytest counts them."""
    listed = run_without_jars("--collect-only", "-m", "not broker").stdout
    counts = re.search(r"(\d+)/\d+ tests collected", listed)
    assert counts, listed
    return counts[1]


def test_a_missing_part_is_one_line_with_its_reason_and_the_rest_runs():
    done = run_without_jars()
    assert done.returncode == 0, done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("left out")]
    counts = re.match(r"left out: (\d+) tests of 'broker': ", line)
    assert counts
    assert "KSTREAMS_ASSIGN_CACHE" in line
    assert f"{counted_without_the_part()} passed, {counts[1]} deselected" in done.stdout


def test_where_nothing_may_be_left_out_the_run_fails_with_the_same_reason():
    done = run_without_jars(strict="1")
    assert done.returncode == 4
    assert "STRICT=1 and the part 'broker' cannot run" in done.stderr
    assert "KSTREAMS_ASSIGN_CACHE" in done.stderr


def test_a_run_that_does_not_select_the_part_does_not_miss_it():
    done = run_without_jars("-m", "not broker", strict="1")
    assert (done.returncode, "left out" in done.stdout) == (0, False)


BY_SEVERAL = ("-n", "2", "--no-loadscope-reorder")


def test_a_run_by_several_processes_tells_of_a_missing_part_once():
    done = run_without_jars(*BY_SEVERAL)
    assert done.returncode == 0, done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("left out")]
    assert re.match(r"left out: \d+ tests of 'broker': .*KSTREAMS_ASSIGN_CACHE", line)
    assert f"{counted_without_the_part()} passed" in done.stdout


def test_a_run_by_several_processes_fails_where_nothing_may_be_left_out():
    done = run_without_jars(*BY_SEVERAL, strict="1")
    assert done.returncode != 0
    assert "STRICT=1 and the part 'broker' cannot run" in done.stdout + done.stderr
    assert "passed" not in done.stdout


def test_in_a_run_by_several_processes_the_tests_of_a_file_stay_together():
    files = ["tests/tasks/test_lifecycle.py", "tests/tasks/test_buffer.py", "tests/tasks/test_times.py"]
    quick = ("-m", "quick")  # asks for no part
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *quick, *BY_SEVERAL, *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    places = set(re.findall(r"^\[(gw\d)\] .* PASSED (\S+)::", done.stdout, re.MULTILINE))
    assert sorted(file for _, file in places) == sorted(files)
    assert {process for process, _ in places} == {"gw0", "gw1"}


@pytest.fixture
def some_tests(tmp_path):
    """Starts a run of some tests by several processes, in this project's order; ``conftest`` is added to theirs."""

    def start(*lines: str, words: Sequence[str] = (), conftest: Sequence[str] = ()) -> subprocess.Popen[str]:
        (tmp_path / "test_some.py").write_text(
            "\n".join(("import os", "from threading import Event", "import pytest", *lines))
        )
        hooks = ("pytest_runtest_makereport", "pytest_terminal_summary", "pytest_xdist_make_scheduler")
        ours = f"from tests.conftest import {', '.join(hooks)}"
        (tmp_path / "conftest.py").write_text("\n".join((ours, *conftest)))
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *BY_SEVERAL, *words]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        return subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    return start


def test_a_test_that_ends_its_process_fails_once_and_the_others_run(some_tests):
    test = "@pytest.mark.parametrize('number', range(9))", "def test(number):", "    if number in (0, 4, 8):"
    with some_tests(*test, "        os._exit(1)", words=("--max-worker-restart", "5")) as run:
        printed, _ = run.communicate(timeout=LIMIT_S)
    assert printed.splitlines()[-1].strip("= ").startswith("3 failed, 6 passed")
    assert printed.count("replacing crashed worker") == 3


WAITS = "from pathlib import Path\nfrom tests.worker.app import until\n"


def test_only_two_processes_at_once_run_what_is_heavy(some_tests, tmp_path):
    """Two heavy tests wait for a light one, and a third heavy one comes after one of the two."""
    waits = WAITS + "def test_waits():\n    until(Path('light').exists, 20)\n    Path(__name__).touch()\n"
    third = WAITS + "def test_third():\n    assert Path('test_first').exists() or Path('test_second').exists()\n"
    for file, text in {"docker/test_first": waits, "history/test_second": waits, "processes/test_third": third}.items():
        path = tmp_path / "tests" / f"{file}.py"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    light = "def test_light():", "    open('light', 'w').close()"
    with some_tests(*light, words=("-n", "3", "tests", "test_some.py")) as run:
        printed, _ = run.communicate(timeout=LIMIT_S)
    assert printed.splitlines()[-1].strip("= ").startswith("4 passed"), printed


LEAVES_A_WORKER = (
    "from kstreams_assign import Config, Subtopology",
    "from tests.worker.app import Running",
    "def test_fails(tmp_path):",
    "    config = Config(application_id='left', bootstrap_servers='127.0.0.1:1', state_dir=str(tmp_path))",
    "    Running(config, [Subtopology(process=print, sources=['lines'])])",
    "    assert False",
    "def test_comes_next():",
    "    assert Running.at_work == []",
)


def test_a_worker_that_a_failed_test_leaves_is_ended_before_the_next(some_tests):
    with some_tests(*LEAVES_A_WORKER) as run:
        printed, _ = run.communicate(timeout=LIMIT_S)
    assert printed.splitlines()[-1].strip("= ").startswith("1 failed, 1 passed"), printed


FAILS_THEN_HANGS = (
    "def test_fails():",
    "    assert False",
    "def test_hangs():",
    "    open('begun', 'w').close()",
    "    Event().wait()",
)

HANGS_AS_IT_ENDS = (
    "@pytest.fixture",
    "def late():",
    "    yield",
    "    Event().wait()",
    "def test_hangs(late):",
    "    assert False",
)


@pytest.mark.parametrize("tests", [FAILS_THEN_HANGS, HANGS_AS_IT_ENDS], ids=["the next one", "its own end"])
def test_what_hangs_after_a_test_has_failed_is_ended(some_tests, tests):
    watch = "from tests import watch", "watch.HANGS_S = 2", "def pytest_configure(config):"
    with some_tests(*tests, conftest=(*watch, "    config.pluginmanager.register(watch.Watch())")) as run:
        printed, _ = run.communicate(timeout=LIMIT_S)
    assert printed.splitlines()[-1].strip("= ").startswith("2 failed")
    assert re.search(r"Timeout \(0:00:02\)![^=]+in (test_hangs|late)", printed)


def test_after_ctrl_c_the_tests_that_had_not_ended_are_named_and_those_that_failed(some_tests, tmp_path):
    with some_tests(*FAILS_THEN_HANGS, words=["-v"]) as run:
        assert run.stdout is not None
        assert any("FAILED test_some.py::test_fails" in line for line in run.stdout)
        until((tmp_path / "begun").exists, LIMIT_S)
        run.send_signal(signal.SIGINT)
        printed, _ = run.communicate(timeout=LIMIT_S)
    assert run.returncode == pytest.ExitCode.INTERRUPTED
    assert "FAILED test_some.py::test_fails" in printed
    assert "had not ended: test_some.py::test_hangs" in printed


def test_make_check_runs_what_needs_no_part_asks_for_none_and_counts_on_its_last_line():
    done = run_without_jars("-m", "quick", *BY_SEVERAL, strict="1")
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.fullmatch(r"(\d+) passed in .*s", done.stdout.splitlines()[-1])
    assert passed
    listed = run_without_jars("--collect-only", "-m", "quick").stdout.splitlines()
    assert int(passed[1]) == sum("::" in line for line in listed) > 0
    assert not [line for line in listed if "test_broker.py" in line]
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("check: ")[2].partition("\n\n")[0]
    assert "-m pytest -q -m quick $(or $(ARGS),$(BY_SEVERAL))" in recipe
