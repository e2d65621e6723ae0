"""The clients in ``examples/``, in three languages, as processes at a sidecar on a real broker."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.sidecar.shop import PARTITIONS, WITHIN_S, Shop

EXAMPLES = Path(__file__).parents[2] / "examples"
ORDERS = [b"customer-%d" % (n % 53) for n in range(20_000)]


@contextmanager
def at_work(command: Sequence[str], shop: Shop) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([*command, shop.folder / "1.sock", shop.output])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def counts_through_kills(command: Sequence[str], shop: Shop) -> None:
    """Send orders while the application is killed and started again; then Ctrl-C ends it cleanly."""
    shop.send(ORDERS)
    shop.start().until_running(PARTITIONS)
    with at_work(command, shop) as process:
        wait_for_progress(shop)
        process.kill()
    shop.send(ORDERS)
    with at_work(command, shop) as process:
        deadline = time.monotonic() + WITHIN_S
        while not counted(shop) and process.poll() is None and time.monotonic() < deadline:
            pass
        assert shop.committed() == shop.sent
        assert shop.emitted() == shop.sent
        process.send_signal(signal.SIGINT)
        assert process.wait(WITHIN_S) == 0


def counted(shop: Shop) -> bool:
    return shop.committed() == shop.emitted() == shop.sent


def wait_for_progress(shop: Shop) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not shop.committed():
        assert time.monotonic() < deadline


@pytest.fixture
def shop(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shop]:
    running_shop = Shop(broker, request.node.name.replace("_", "-")[:70], tmp_path)
    yield running_shop
    running_shop.stop()


def test_the_python_example_counts_through_kills(shop):
    counts_through_kills([sys.executable, str(EXAMPLES / "sidecar_python.py")], shop)


def test_the_javascript_example_counts_through_kills(node, shop):
    counts_through_kills(node, shop)


def test_the_go_example_counts_through_kills(go, shop):
    counts_through_kills(go, shop)


@pytest.mark.parametrize("example", ["sidecar_python.py", "sidecar_node/count.mjs", "sidecar_go/main.go"])
def test_an_example_is_short(example):
    assert len((EXAMPLES / example).read_text(encoding="utf-8").splitlines()) <= 180
