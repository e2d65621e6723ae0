"""The embedded broker, on real processes: it answers, it ends, it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from kstreams_assign.errors import LocalBrokerError
from kstreams_assign.local import LocalBroker, leftovers
from kstreams_assign.local.probe import brokers_known
from tests.adapters.confluent_cluster import until

pytestmark = pytest.mark.broker
PATIENCE_S = 60.0


def port_of(bootstrap_servers: str) -> int:
    return int(bootstrap_servers.rpartition(":")[2])


def test_the_shared_broker_answers_as_a_broker(broker):
    assert brokers_known(port_of(broker), PATIENCE_S) == 1


def test_a_started_broker_answers_and_a_stopped_one_leaves_no_process_and_no_data():
    with LocalBroker() as running:
        pid, data_dir, port = running.pid, running.data_dir, port_of(running.bootstrap_servers)
        assert brokers_known(port, PATIENCE_S) == 1
        assert (data_dir / "broker.log").exists()
    assert not psutil.pid_exists(pid)
    assert not data_dir.exists()
    assert brokers_known(port) == 0


def test_a_named_data_folder_and_port_are_used_and_the_folder_is_kept_and_used_again(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    first = LocalBroker(data_dir=tmp_path / "data", port=port).start()
    first.stop()
    made = (tmp_path / "data" / "records" / "meta.properties").read_bytes()
    with LocalBroker(data_dir=tmp_path / "data") as second:
        assert first.bootstrap_servers == f"127.0.0.1:{port}"
        assert brokers_known(port_of(second.bootstrap_servers), PATIENCE_S) == 1
    assert (tmp_path / "data" / "records" / "meta.properties").read_bytes() == made


def test_a_killed_broker_comes_back_on_the_same_address():
    with LocalBroker() as running:
        before, pid = running.bootstrap_servers, running.pid
        running.kill()
        assert not running.running
        assert brokers_known(port_of(before)) == 0
        running.restart()
        assert running.bootstrap_servers == before
        assert running.pid != pid
        assert brokers_known(port_of(before), PATIENCE_S) == 1


def test_a_controller_apart_lives_on_when_its_broker_is_killed_and_ends_with_it(tmp_path):
    with LocalBroker(data_dir=tmp_path, controller_apart=True) as running:
        address, pid = running.bootstrap_servers, running.pid
        (controller,) = set(processes_in(tmp_path)) - {pid}
        kept = topic_made(address)
        running.kill()
        assert processes_in(tmp_path) == [controller]
        running.restart()
        assert running.bootstrap_servers == address
        assert set(processes_in(tmp_path)) == {controller, running.pid}
        assert AdminClient({"bootstrap.servers": address}).list_topics(timeout=PATIENCE_S).topics[kept].error is None
    assert processes_in(tmp_path) == []


def test_a_controller_apart_that_has_died_is_started_again_with_its_broker(tmp_path):
    with LocalBroker(data_dir=tmp_path, controller_apart=True) as running:
        (controller,) = set(processes_in(tmp_path)) - {running.pid}
        running.kill()
        os.kill(controller, signal.SIGKILL)
        assert running._controller.ended(PATIENCE_S)
        running.restart()
        assert len(processes_in(tmp_path)) == 2


def test_a_jvm_that_dies_is_reported_with_the_end_of_its_log():
    with pytest.raises(LocalBrokerError, match=r"num\.network\.threads"):
        LocalBroker(settings={"num.network.threads": "-1"}).start()


def test_a_port_that_is_taken_is_named_and_nothing_keeps_running(tmp_path):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(LocalBrokerError, match=f"port {port}"):
            LocalBroker(data_dir=tmp_path, port=port).start()
    assert processes_in(tmp_path) == []


def test_a_start_that_takes_too_long_is_given_up_and_its_jvm_ended(tmp_path):
    with pytest.raises(LocalBrokerError, match="no answer after 0 s"):
        LocalBroker(data_dir=tmp_path, start_limit_s=0).start()
    assert processes_in(tmp_path) == []


def test_a_folder_that_was_made_otherwise_is_refused(tmp_path):
    """Its records would meet a controller that knows none of them."""
    with LocalBroker(data_dir=tmp_path):
        pass
    with pytest.raises(LocalBrokerError, match="was created without controller_apart"):
        LocalBroker(data_dir=tmp_path, controller_apart=True).start()


def test_a_certificate_for_another_name_is_refused_at_once():
    other = Path(__file__).parent.with_name("other_tls.pem")
    with pytest.raises(LocalBrokerError, match=r"other_tls\.pem: must be a self-signed certificate for 127\.0\.0\.1"):
        LocalBroker(tls=other).start()


OLDER_THAN_MS = {  # settings of the caller -> the age at which records are deleted
    (): "-1",
    (("log.retention.hours", "1"),): "3600000",
    (("log.retention.minutes", "5"),): "300000",
    (("log.retention.ms", "7000"),): "7000",
}


@pytest.mark.parametrize("settings", OLDER_THAN_MS, ids=str)
def test_no_record_is_deleted_for_its_age_unless_the_caller_says_so(settings):
    with LocalBroker(settings=dict(settings)) as running:
        topic = ConfigResource(ConfigResource.Type.TOPIC, topic_made(running.bootstrap_servers))
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        described = admin.describe_configs([topic])[topic].result(PATIENCE_S)
    assert described["retention.ms"].value == OLDER_THAN_MS[settings]


def topic_made(address: str) -> str:
    admin = AdminClient({"bootstrap.servers": address})  # has to outlive its answer
    admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(PATIENCE_S)
    # The answer may come before the broker knows the topic itself.
    until(lambda: admin.list_topics("kept", timeout=PATIENCE_S).topics["kept"].error, lambda error: error is None)
    return "kept"


def processes_in(folder: Path) -> list[int]:
    """Process ids of those whose command line names ``folder``."""
    everyone = psutil.process_iter(["pid", "cmdline"])
    return [process.pid for process in everyone if any(str(folder) in word for word in process.info["cmdline"] or ())]


KEEPER = """
import sys, threading
from pathlib import Path
from kstreams_assign.local import LocalBroker
broker = LocalBroker()
starter = threading.Thread(target=broker.start)
starter.start(); starter.join()
while Path(f"/proc/self/task/{starter.native_id}").exists():
    pass
print(broker.pid, broker._server.ended(1), flush=True)
sys.stdin.read()
broker.stop()
"""


def test_a_broker_outlives_the_thread_that_started_it_and_dies_with_its_process(tmp_path, monkeypatch):
    """SIGKILL gives the parent no chance to tidy up; Linux ends the JVM for it, and a later start removes the data."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    command, temporary = [sys.executable, "-c", KEEPER], os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=temporary) as keeper:
        pid, ended = keeper.stdout.readline().split()
        assert ended == b"False"
        jvm = psutil.Process(int(pid))
        assert leftovers.sweep(older_than_s=-1) == []
        os.kill(keeper.pid, signal.SIGKILL)
        jvm.wait(timeout=PATIENCE_S)
        (data_dir,) = tmp_path.iterdir()
        assert leftovers.sweep(older_than_s=-1) == [data_dir]


def test_a_port_that_is_taken_is_refused_by_its_number(broker):
    port = int(broker.rpartition(":")[2])
    with pytest.raises(LocalBrokerError, match=f"port {port}: cannot listen there"):
        LocalBroker(port=port).start()
