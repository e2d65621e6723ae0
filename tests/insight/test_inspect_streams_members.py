"""``inspect`` of a streams group with members of this package: their client ids tell them apart."""

from __future__ import annotations

from pathlib import Path

from kstreams_assign.events import RunningEvent
from tests.insight.run import Cli
from tests.worker.app import PARTITIONS, App
from tests.worker.streams_settings import set_group


def test_a_member_is_called_by_its_process_or_as_its_settings_say(broker: str, run: Cli, tmp_path: Path) -> None:
    app = App(broker, "named-members", tmp_path)
    set_group(broker, app.name, heartbeat_interval_ms=500, initial_rebalance_delay_ms=0)
    try:
        first = app.start(1, group_protocol="streams")
        first.until_running(PARTITIONS)
        second = app.start(2, group_protocol="streams", client={"client.id": "mine"})
        second.until_running(PARTITIONS // 2)
        processes = run("inspect", app.name, "-b", broker, "--json").facts["processes"]
    finally:
        app.stop()
    process_ids = [worker.reported(RunningEvent)[0].process_id for worker in (first, second)]
    names = {process["process_id"]: process["members"][0]["client_id"] for process in processes}
    assert names == {process_ids[0]: f"{app.name}-{process_ids[0]}", process_ids[1]: "mine"}
