"""What differs between the processes of one application."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstreams_assign import Config, Subtopology, Worker
from kstreams_assign.errors import ConfigError
from kstreams_assign.events import ClosedEvent
from kstreams_assign.worker.share import Share, apply_share, scarce_memory, set_share, share_settings

CONFIG = Config(application_id="app", bootstrap_servers="localhost:9092")
NAMED = Config(
    application_id="app",
    bootstrap_servers="localhost:9092",
    state_dir="data/state",
    process_name="pod",
    group_instance_id="pod",
    client_rack="a",
    application_server="[::1]:7000",
)


@pytest.fixture
def _no_share_afterwards():
    yield
    set_share(None)


def test_names_directory_and_port_get_the_number_and_the_rack_stays():
    shared = share_settings(NAMED, 3, None)
    assert (shared.state_dir, shared.process_name, shared.group_instance_id) == ("data/state/3", "pod-3", "pod-3")
    assert (shared.application_server, shared.client_rack, shared.http) == ("[::1]:7003", "a", None)


def test_what_is_not_set_stays_unset_and_the_first_process_has_a_directory_of_its_own_too():
    shared = share_settings(CONFIG, 0, "127.0.0.1:0")
    assert (shared.state_dir, shared.process_name, shared.group_instance_id) == ("state/0", None, None)
    assert (shared.application_server, shared.http) == (None, "127.0.0.1:0")


def test_each_process_answers_queries_at_a_port_of_its_own_and_a_free_port_stays_free():
    config = Config("app", "b:1", query="127.0.0.1:7000", application_server="127.0.0.1:7000")
    shared = share_settings(config, 2, None)
    assert (shared.query, shared.application_server) == ("127.0.0.1:7002", "127.0.0.1:7002")
    free = share_settings(Config("app", "b:1", query="127.0.0.1:0", application_server="a:0"), 2, None)
    assert (free.query, free.application_server) == ("127.0.0.1:0", "a:0")


def test_the_scheme_of_an_endpoint_stays():
    config = Config("app", "b:1", application_server="http://pod:7000")
    assert share_settings(config, 2, None).application_server == "http://pod:7002"


def test_a_port_beyond_the_last_is_refused():
    config = Config(application_id="app", bootstrap_servers="b:1", application_server="here:65535")
    assert share_settings(config, 0, None).application_server == "here:65535"
    with pytest.raises(ConfigError, match=r"application_server = 'here:65535': process 1 would have port 65536, above"):
        share_settings(config, 1, None)


def test_an_http_address_that_nobody_serves_for_all_is_refused_with_the_fix():
    config = Config(application_id="app", bootstrap_servers="b:1", http="0.0.0.0:8080")
    with pytest.raises(ConfigError, match=r"start them with --http 0\.0\.0\.0:8080"):
        share_settings(config, 0, None)
    assert share_settings(config, 0, "127.0.0.1:0").http == "127.0.0.1:0"


def test_without_a_share_nothing_changes():
    assert apply_share(NAMED, None) == (NAMED, None)


@pytest.mark.usefixtures("_no_share_afterwards")
def test_a_worker_takes_the_share_of_its_process_and_both_listeners_hear_of_it(tmp_path):
    own, shared = [], []
    set_share(Share(2, None, shared.append))
    config = Config(application_id="app", bootstrap_servers="localhost:1", state_dir=str(tmp_path))
    worker = Worker(config, [Subtopology(lambda _task, _records: None, sources=["in"])], on_event=own.append)
    assert Path(tmp_path, "2", "app").is_dir()
    worker.close()
    worker.run()
    assert [type(event) for event in own] == [ClosedEvent]
    assert shared == own


def test_the_processes_share_the_memory_limit_and_keep_what_is_set_for_each():
    config = Config(
        application_id="app",
        bootstrap_servers="b:1",
        memory_limit_bytes=2 << 30,
        rocksdb_block_cache_bytes=64 << 20,
    )
    shared = share_settings(config, 1, None, 4)
    assert (shared.memory_limit_bytes, shared.rocksdb_block_cache_bytes) == (512 << 20, 64 << 20)
    with pytest.raises(ConfigError, match=r"memory_limit_bytes = 134217728: must be at least \d+ \(\d+ MiB\)"):
        share_settings(config, 1, None, 16)


@pytest.mark.usefixtures("_no_share_afterwards")
def test_a_container_with_less_memory_than_all_processes_may_take_is_a_warning():
    assert scarce_memory(CONFIG, None) == scarce_memory(CONFIG, 1113 << 20) == ()
    (warning,) = scarce_memory(CONFIG, 512 << 20)
    assert warning == (
        "the container has 512 MiB of memory, and stores and buffers may take 1112 MiB: "
        "set memory_limit_bytes = 536870912, or less if other programs run beside it"
    )
    set_share(Share(0, None, lambda _event: None, 2))
    assert "may take 2225 MiB" in scarce_memory(CONFIG, 1100 << 20)[0]
