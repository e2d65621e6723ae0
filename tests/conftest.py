"""What all tests share: the real broker, and a report of the tests that could not run.

A part of the tests may need something that a machine lacks (``PARTS``). Then its tests are left out, and one line at
the end gives the reason; with ``STRICT=1`` in the environment the run fails instead. In a run by several processes
(``make test``) the first process determines what is missing and passes it to the others.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from kstreams_assign.adapters import log_secrets
from kstreams_assign.adapters.java import find_java
from kstreams_assign.errors import ExtraMissing, LocalBrokerError, SparkError
from kstreams_assign.history.session import spark_session
from kstreams_assign.local import LocalBroker
from kstreams_assign.local.archive import make_archive
from kstreams_assign.local.jars import class_path, locked_jars
from tests.fast_files import keep_byte_code, write_files_to_memory
from tests.order import ByFile, place
from tests.samples import BRIEF_EXAMPLES
from tests.watch import Watch

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from pyspark.sql import SparkSession

settings.register_profile("steady", deadline=None)  # a busy machine is not a failure
settings.register_profile("brief", deadline=None, max_examples=BRIEF_EXAMPLES)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell: tests press Ctrl-C all the same
    signal.signal(signal.SIGINT, signal.default_int_handler)

EXAMPLES = Path(__file__).parent.parent / "examples"

write_files_to_memory()
keep_byte_code()
gc.disable()  # while tests are collected: hundreds of thousands of objects appear then, and all stay to the end

LEFT_OUT = pytest.StashKey[dict[str, str]]()
MISSING = pytest.StashKey[dict[str, str]]()
SCHEDULER = pytest.StashKey[ByFile]()


def broker_missing() -> str | None:
    """Why no embedded broker can run here, or None; fetches its jars, and prepares faster starts, if not done yet."""
    try:
        find_java()
        class_path()
    except (LocalBrokerError, ExtraMissing) as error:
        return str(error)
    with suppress(LocalBrokerError):  # a Java that makes none starts brokers all the same
        make_archive()
    return None


def java_peer_missing() -> str | None:
    """Why Kafka's own classes cannot run here, or None; compiles the harness if it is not cached yet."""
    from bench.java_peer import NoJavaPeer, command  # not there when the tests run against the wheel

    try:
        command()
    except NoJavaPeer as error:
        return str(error)
    return None


def releases_missing() -> str | None:
    """Why earlier releases of Kafka Streams cannot run here, or None; fetches their jars if they are not cached yet."""
    from bench.java_peer import NoJavaPeer
    from tests.releases.releases import fetch_all

    try:
        fetch_all()
    except (NoJavaPeer, LocalBrokerError) as error:
        return str(error)
    return None


def newer_broker_missing() -> str | None:
    """Why no broker of a newer release can run here, or None; fetches its jars if they are not cached yet."""
    from tests.releases.newer_broker import LOCK

    try:
        find_java()
        class_path(locked_jars(LOCK))
    except (LocalBrokerError, ExtraMissing) as error:
        return str(error)
    return None


def spark_missing() -> str | None:
    """Why no Spark with a Kafka connector can run here, or None; prepares faster starts of it, if not done yet.

    Starts it, and so fetches the connector once.
    """
    # In a process of its own, as pyspark leaves sockets open; the start says what is wrong, or does without.
    subprocess.run([sys.executable, "-m", "kstreams_assign", "history", "prepare"], check=False)
    try:
        started_spark()
    except (SparkError, LocalBrokerError, ExtraMissing) as error:
        return str(error)
    return None


@cache
def started_spark() -> tuple[SparkSession, ExitStack]:
    """One Spark for the whole run, and what ends it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="spark-")))
        quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
        on_ctrl_c = signal.getsignal(signal.SIGINT)
        session = stack.enter_context(spark_session("local[2]", log=folder / "spark.log", settings=quick))
        signal.signal(signal.SIGINT, on_ctrl_c)  # it is to end the run, and not this Spark alone
        return session, stack.pop_all()


def find_chromium() -> str | None:
    """A Chromium of this machine; playwright drives it and brings none."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def chromium_missing() -> str | None:
    """Why no page can be looked at here, or None."""
    return None if find_chromium() else "no Chromium on the path (Debian: apt-get install chromium)"


def node_missing() -> str | None:
    """Why the example in JavaScript cannot run here, or None; fetches its one package."""
    return _not_on_path("node", "npm") or _unbuilt(node_example)


def go_missing() -> str | None:
    """Why the example in Go cannot run here, or None; fetches its packages and compiles it."""
    return _not_on_path("go") or _unbuilt(go_example)


def _not_on_path(*programs: str) -> str | None:
    lacking = [program for program in programs if shutil.which(program) is None]
    return f"not on the path: {', '.join(lacking)}" if lacking else None


def _unbuilt(example: Callable[[], TemporaryDirectory[str]]) -> str | None:
    try:
        example()
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        return f"{error}: {error.stderr}"
    return None


@cache
def node_example() -> TemporaryDirectory[str]:
    """A copy of the example in JavaScript, with its package as the lock file has it."""
    return _built("sidecar_node", "npm", "ci", "--silent", "--no-audit", "--no-fund")


@cache
def go_example() -> TemporaryDirectory[str]:
    """A copy of the example in Go, compiled."""
    return _built("sidecar_go", "go", "build", "-o", "count", ".")


def _built(example: str, *command: str) -> TemporaryDirectory[str]:
    folder = TemporaryDirectory(prefix=f"{example}-")
    without = shutil.ignore_patterns("node_modules")
    shutil.copytree(EXAMPLES / example, folder.name, dirs_exist_ok=True, ignore=without)
    try:
        subprocess.run(command, cwd=folder.name, check=True, capture_output=True, text=True, timeout=300)
    except subprocess.SubprocessError:
        folder.cleanup()
        raise
    return folder


def docker_missing() -> str | None:
    """Why no containers can run here, or None; builds or pulls the images if they are not here yet."""
    from tests.docker.images import NoImages, make_images  # not there when the tests run against the wheel

    try:
        make_images()
    except NoImages as error:
        return str(error)
    return None


PARTS: dict[str, Callable[[], str | None]] = {
    # marker, and also the fixture whose users carry it: why the part cannot run here, or None
    "broker": broker_missing,
    "java_peer": java_peer_missing,
    "releases": releases_missing,
    "newer_broker": newer_broker_missing,
    "chromium": chromium_missing,
    "spark": spark_missing,
    "node": node_missing,
    "go": go_missing,
    "docker": docker_missing,
}


SHARED = {"broker.session.timeout.ms": "60000"}
"""Settings of the brokers that all tests share.

- They are never killed. Embedded brokers lose their session with their controller after two seconds, so that a killed
  one can start again; on a busy machine that happened to brokers that were only slow.
- They delete nothing for its age. Tests write records of 1970, which a broker deletes as soon as it looks for old
  ones, half a minute after its start and every five minutes.
"""

SPARKS_SOCKETS = "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
"""pyspark leaves the sockets of each collected frame to the garbage collector."""


def pytest_configure(config: pytest.Config) -> None:
    """End a run in which a test hangs."""
    config.pluginmanager.register(Watch())


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Hide in a test's log the secrets of that test alone: a password ``1`` of another test hides every 1."""
    log_secrets._filter.secrets = frozenset()


def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    """End the workers that a test has left as it failed, while their broker is there."""
    app = sys.modules.get("tests.worker.app")
    if app is not None and call.when == "call" and call.excinfo is not None:
        app.Running.end_all()


@pytest.fixture(scope="session")
def broker() -> Iterator[str]:
    """A real broker for the whole run: its bootstrap servers. Name topics and groups of your own.

    ``KSTREAMS_ASSIGN_TEST_BROKER`` names one that runs already (the Docker tests do so).
    """
    running_already = os.environ.get("KSTREAMS_ASSIGN_TEST_BROKER")
    if running_already:
        yield running_already
        return
    # Many tests need it, and on a busy machine it starts slowly.
    with LocalBroker(start_limit_s=100, settings=SHARED) as running:
        yield running.bootstrap_servers


@pytest.fixture(scope="session")
def newer_broker() -> Iterator[str]:
    """A real broker of a newer release than ``broker``, for the whole run."""
    from tests.releases.newer_broker import NewerBroker

    with NewerBroker(start_limit_s=100, settings=SHARED) as running:
        yield running.bootstrap_servers


@pytest.fixture(scope="session")
def spark_for_all() -> Iterator[SparkSession]:
    """The one Spark of the run; ended with it."""
    session, stack = started_spark()
    with stack:
        yield session


@pytest.fixture
def spark(spark_for_all: SparkSession) -> Iterator[SparkSession]:
    """A Spark session on this machine, with two cores; name folders of your own."""
    yield spark_for_all
    gc.collect()  # sockets that pyspark leaves open are reported now (SPARKS_SOCKETS), not in another test


@pytest.fixture(scope="session")
def java_peer() -> list[str]:
    """The command before the sub-command of Kafka's own classes."""
    from bench.java_peer import command

    return command()


@pytest.fixture(scope="session")
def releases() -> None:
    """The jars of earlier releases of Kafka Streams, and programs for them; ``tests.releases.releases`` starts them."""


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium."""
    path = find_chromium()
    assert path is not None
    return path


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """A running Chromium without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="session")
def node() -> Iterator[list[str]]:
    """The command of the counting example in JavaScript."""
    with node_example() as folder:
        yield ["node", str(Path(folder, "count.mjs"))]


@pytest.fixture(scope="session")
def go() -> Iterator[list[str]]:
    """The command of the counting example in Go."""
    with go_example() as folder:
        yield [str(Path(folder, "count"))]


@pytest.fixture(scope="session")
def docker() -> None:
    """A Docker engine that answers, and the images; ``tests.docker.images`` names them."""


SLOW = (
    "tests/test_wheel.py",
    "tests/test_plain_install.py",
    "tests/test_conftest.py",
    "tests/test_house.py::test_the_tool",
    "tests/test_house.py::test_every_locked_package",
    "tests/docs_site/test_build.py",
    "tests/docs_site/test_code_blocks.py::test_python_uses",
    "tests/docs_site/test_reference.py",
    "tests/adapters/test_confluent_admin.py::test_a_wait_for_brokers",
    "tests/adapters/test_confluent_producer.py::test_a_queue_that_stays_full",
    "tests/adapters/test_kafka_python_connections.py::test_a_handshake_that_is_answered",
    "tests/adapters/test_kafka_python_connections.py::test_nobody_hangs",
    "tests/adapters/test_rocksdb_cut.py",
    "tests/adapters/test_signals.py::test_every_thread_that_waits",
    "tests/bench/test_bench.py::test_without_a_peer",
    "tests/bench/test_bench.py::test_a_leaders_whole_rebalance",
    "tests/assign/test_brute_force.py::test_guarantees_hold_for_any_process_names",
    "tests/bench/test_history.py",
    "tests/bench/test_policies.py",
    "tests/bench/test_prediction.py",
    "tests/bench/test_record_size.py",
    "tests/bench/test_what_if.py",
    "tests/demo/test_fleet.py::test_workers_are_stopped_together",
    "tests/group/test_size.py::test_then_the_standbys",
    "tests/history/test_ask.py::test_the_printed_script",
    "tests/history/test_command.py::test_report_and_ask_look_back",
    "tests/history/test_compaction.py",
    "tests/history/test_generate.py",
    "tests/history/test_remote.py",
    "tests/history/test_report_page.py",
    "tests/history/test_writing.py",
    "tests/local/test_start_refused.py",
    "tests/peer/test_bench_problem.py",
    "tests/peer/test_compare.py",
    "tests/test_pipe_end.py",
    "tests/test_public_api.py::test_a_type_checker",
    "tests/sidecar/test_memory.py::test_a_hostile_frame",
    "tests/sidecar/test_command.py",
    "tests/sidecar/test_processes.py",
    "tests/sim/tables/test_random_situations.py",
    "tests/sim/tables/test_sweep.py",
    "tests/sim/test_command.py::test_a_failing_seed_is_reduced",
    "tests/sim/test_command.py::test_a_failing_streams_group",
    "tests/sim/test_command.py::test_ctrl_c",
    "tests/sim/test_command.py::test_several_processes",
    "tests/sim/test_jobs.py",
    "tests/sim/test_shrink.py::test_a_reduced_streams_group",
    "tests/sim/test_shrink.py::test_only_",
    "tests/state/test_crash.py",
    "tests/state/test_interleavings.py::test_two_members",
    "tests/status/test_server.py::test_a_silent_client",
    "tests/processes/test_command.py",
    "tests/worker/test_damage.py::test_damage_met_by_a_compaction",
    "tests/worker/test_damage.py::test_without_rights_and_on_a_full_disk",
    "tests/worker/test_membership_mutex.py::test_what_the_cleaner_kept",
    "tests/worker/test_restore_budget.py::test_copies_without_news",
    "tests/worker/test_start_without_a_broker.py::test_the_group_is_connected_to",
    "tests/processes/test_output.py",
    "tests/sidecar/test_start_without_a_broker.py::test_a_sidecar_that_is_asked",
    "tests/processes/test_endpoint.py::test_a_process_that_answers_too_slowly",
    "tests/query/test_sockets.py::test_an_answer_that_does_not_come",
    "tests/query/test_sockets.py::test_addresses_that_hang",
    "tests/query/test_sockets.py::test_the_timeout_is_for_all",
    "tests/test_tutorial.py::test_the_tests_of_the_tutorial",
    "tests/adapters/test_client_logs.py::test_real_clients",
    "tests/query/test_room.py::test_a_query_that_finds_no_room_in_time",
    "tests/local/test_start_interrupted.py::test_a_start_that_is_killed",
    "tests/sidecar/test_silence.py::test_a_peer_that_does_not_read",
)
"""Beginnings of node ids: a second or more each, or whole tools. ``make check`` leaves them out."""

NOTHING_QUICK = (
    *(place for place in SLOW if place.endswith(".py")),
    "tests/docker/",
    "tests/releases/test_",
    "tests/worker/crash/test_crash.py",
    "_on_a_broker.py",
    "_in_chromium.py",
)
"""Beginnings of node ids, and ends of file names: ``make check`` does not even import such a file."""


def has_nothing_quick(file: str) -> bool:
    """Whether no test of the file, named from the project's folder on, may be quick."""
    return file.startswith(NOTHING_QUICK) or file.endswith(NOTHING_QUICK)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import a file whose tests ``-m quick`` would leave out one by one."""
    asked = config.option.markexpr == "quick" and collection_path.suffix == ".py"
    return True if asked and has_nothing_quick(collection_path.relative_to(config.rootpath).as_posix()) else None


def pytest_collection_finish() -> None:
    """Collect garbage again, but do not look at the modules and tests each time, nor when the process ends."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Mark the users of a part before ``-m`` selects, then leave out the parts that are missing."""
    for item in items:
        parts = PARTS.keys() & set(getattr(item, "fixturenames", ()))
        if _starts_a_broker(item):
            parts.add("broker")
        for part in parts:
            item.add_marker(part)
            if part == "spark":
                item.add_marker(pytest.mark.filterwarnings(SPARKS_SOCKETS))
        if item.nodeid.startswith(SLOW):
            item.add_marker("slow")
        if {mark.name for mark in item.iter_markers()}.isdisjoint((*PARTS, "slow")):
            item.add_marker("quick")
            if has_nothing_quick(item.nodeid.partition("::")[0]):
                raise pytest.UsageError(f"{item.nodeid} is quick, but make check leaves out its file (NOTHING_QUICK)")
    items.sort(key=lambda item: place(item.nodeid))
    yield
    missing = _missing(config, _parts_needed(items))
    config.stash[LEFT_OUT] = {}
    for part, reason in missing.items():
        left_out(config, items, part, reason)


def _starts_a_broker(item: pytest.Item) -> bool:
    """Whether the test, or one of its fixtures, starts a broker of its own."""
    if not isinstance(item, pytest.Function):
        return False
    fixtures = [each.func for each_of_name in item._fixtureinfo.name2fixturedefs.values() for each in each_of_name]
    codes = [getattr(function, "__code__", None) for function in (item.function, *fixtures)]
    return any(code is not None and "LocalBroker" in code.co_names for code in codes)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Assign tests to processes."""
    config.stash[SCHEDULER] = ByFile(config, log)
    return config.stash[SCHEDULER]


def _parts_needed(items: list[pytest.Item]) -> list[str]:
    marks = {mark.name for item in items for mark in item.iter_markers()}
    return [part for part in PARTS if part in marks]


def _missing(config: pytest.Config, parts: Iterable[str]) -> dict[str, str]:
    """The parts that cannot run here, with the reason; under ``STRICT=1`` refuse to run at the first of them."""
    known = getattr(config, "workerinput", {}).get("missing")
    if known is not None:
        return {part: known[part] for part in parts if part in known}
    missing = {}
    for part in parts:
        if reason := PARTS[part]():
            _refuse_where_strict(part, reason)
            missing[part] = reason
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        gc.collect()  # a fetch that was tried again has left its first socket open
    return missing


def left_out(config: pytest.Config, items: list[pytest.Item], part: str, reason: str) -> None:
    """Take the tests of ``part`` out of ``items``."""
    dropped = [item for item in items if item.get_closest_marker(part)]
    items[:] = [item for item in items if not item.get_closest_marker(part)]
    config.hook.pytest_deselected(items=dropped)
    config.stash[LEFT_OUT][part] = f"left out: {len(dropped)} tests of {part!r}: {reason}"
    getattr(config, "workeroutput", {})["left_out"] = config.stash[LEFT_OUT]


def _refuse_where_strict(part: str, reason: str) -> None:
    if os.environ.get("STRICT") == "1":
        raise pytest.UsageError(f"STRICT=1 and the part {part!r} cannot run: {reason}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Determine once what is missing before other processes start; this fills the caches that they share."""
    if config.option.markexpr == "quick":
        config.stash[MISSING] = {}
        return
    try:
        config.stash[MISSING] = _missing(config, PARTS)
    finally:
        if started_spark.cache_info().currsize:
            started_spark()[1].close()
            started_spark.cache_clear()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the missing parts to one of the processes."""
    node.workerinput["missing"] = node.config.stash[MISSING]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over which tests it left out: each process has collected all tests."""
    left_out = getattr(node, "workeroutput", {}).get("left_out", {})
    node.config.stash.setdefault(LEFT_OUT, {}).update(left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """One line for each part that was left out, and after Ctrl-C for each test that had not ended."""
    if exitstatus == pytest.ExitCode.INTERRUPTED and SCHEDULER in config.stash:
        for test in config.stash[SCHEDULER].under_way():
            terminalreporter.write_line(f"had not ended: {test}", red=True)
    for line in config.stash.get(LEFT_OUT, {}).values():
        terminalreporter.write_line(line.replace("\n", " "), yellow=True)
