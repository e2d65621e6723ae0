"""The op ``query`` on a real broker: an application reads the keys of every process at its own socket."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstreams_assign.errors import SidecarRefused
from kstreams_assign.sidecar.aio import AsyncSidecarClient
from kstreams_assign.sidecar.client import SidecarClient
from tests.sidecar.shop import PARTITIONS, STORE, Shop, add_up_until
from tests.worker.app import until

ORDERS = [b"customer-%d" % (n % 13) for n in range(200)]


@pytest.fixture
def shop(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shop]:
    running_shop = Shop(broker, re.sub(r"[^a-z0-9]", "-", request.node.name)[:70], tmp_path)
    yield running_shop
    running_shop.stop()


def test_both_clients_read_every_key_wherever_it_is_and_without_disturbing_a_commit(shop: Shop) -> None:
    shop.send(ORDERS)
    shop.start(1, query="127.0.0.1:0").until_running(PARTITIONS)
    with shop.connect() as session:
        add_up_until(session, shop)
        later = session.commit_later()
        assert {customer: int(session.query(STORE, customer)["value"]) for customer in shop.sent} == shop.sent
        later.result()
        shop.start(2, query="127.0.0.1:0").until_running(PARTITIONS // 2)
        answers = {customer: session.query(STORE, customer, timeout_ms=30_000) for customer in shop.sent}
        assert {customer: int(answer["value"]) for customer, answer in answers.items()} == shop.sent
        assert len({answer["endpoint"] for answer in answers.values()}) == 2
        assert session.query(STORE, b"none")["value"] is None
        with pytest.raises(SidecarRefused, match="no_such_store"):
            session.query("nope", b"none")
        session.close()
    asyncio.run(read_all(str(shop.folder / "2.sock"), shop))


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_the_process_that_has_a_key_is_located(shop: Shop, protocol: str) -> None:
    settings = {"group_protocol": protocol, "application_server": "localhost:7001"}
    first = shop.start(1, **settings)
    first.until_running(PARTITIONS)
    with shop.connect() as session:
        until(lambda: session.locate(STORE, b"ann")["active"] == "localhost:7001")
        shop.start(2, **{**settings, "application_server": "localhost:7002"}).until_running(PARTITIONS // 2)
        until(lambda: {located(session, each) for each in ORDERS} == {"localhost:7001", "localhost:7002"})
        with pytest.raises(SidecarRefused, match="no_such_store"):
            session.locate("nope", b"ann")


def located(session: SidecarClient, key: bytes) -> str | None:
    endpoint: str | None = session.locate(STORE, key)["active"]
    return endpoint


async def read_all(socket: str, shop: Shop) -> None:
    async with await AsyncSidecarClient.connect(socket) as session:
        customers = list(shop.sent)
        answers = await asyncio.gather(*(session.query(STORE, each, max_lag=100) for each in customers))
        assert [int(answer["value"]) for answer in answers] == [shop.sent[each] for each in customers]
        assert {answer["role"] for answer in answers} <= {"active", "standby"}
        await session.close()
