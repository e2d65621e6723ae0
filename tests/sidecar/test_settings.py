"""The sidecar's file and address: a wrong value is refused at start, with its key and the allowed values."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstreams_assign.errors import ConfigError
from kstreams_assign.model import Store
from kstreams_assign.sidecar.address import TcpAddress, UnixAddress, listen, read_address
from kstreams_assign.sidecar.settings import SidecarSettings
from kstreams_assign.topology.global_tables import GlobalTable

PLAIN = """
application_id = "app"
bootstrap_servers = "localhost:9092"
socket = "app.sock"
"""
TOPOLOGY = """
[[topology.subtopology]]
sources = ["orders", "returns"]
stores = [
    "totals",
    {name = "cache", changelog = false},
    {name = "timed", type = "timestamped_key_value", drop_headers = true},
    {name = "sessions", ttl_ms = 1000, ttl_clock = "wall"},
    {name = "quick", in_memory = true, changelog_config = {"min.insync.replicas" = 2}},
]
sinks = ["customer-totals"]

[[topology.subtopology]]
sources = ["clicks"]
"""


GLOBAL = PLAIN + TOPOLOGY + "[[topology.global_table]]\n"


def read(tmp_path, text: str) -> SidecarSettings:
    path = tmp_path / "worker.toml"
    path.write_text(text, encoding="utf-8")
    return SidecarSettings.from_toml(path)


def test_a_file_names_the_settings_and_the_topology(tmp_path):
    settings = read(tmp_path, PLAIN + TOPOLOGY)
    first, second = settings.flows
    assert first.shape.sources == ("orders", "returns")
    timed = Store("timed", timestamped=True, drop_headers=True)
    quick = Store("quick", in_memory=True, changelog_config={"min.insync.replicas": 2})
    sessions = Store("sessions", ttl_ms=1000, ttl_clock="wall")
    assert first.shape.stores == (Store("totals"), Store("cache", logged=False), timed, sessions, quick)
    assert first.sinks == {"customer-totals": "customer-totals"}
    assert (second.shape.sources, second.shape.stores, second.sinks) == (("clicks",), (), {})
    assert str(settings.address) == "app.sock"


def test_a_file_names_global_tables(tmp_path):
    timed = "\n[[topology.global_table]]\nname = 'rates'\ntopic = 'r'\ntype = 'timestamped_key_value'"
    settings = read(tmp_path, GLOBAL + "name = 'countries'\ntopic = 'country-codes'" + timed)
    assert settings.global_tables == (
        GlobalTable("countries", topic="country-codes"),
        GlobalTable("rates", topic="r", timestamped=True),
    )
    assert read(tmp_path, PLAIN + TOPOLOGY).global_tables == ()


def test_the_example_file_is_valid():
    settings = SidecarSettings.from_toml(Path(__file__).parents[2] / "examples" / "worker.toml")
    assert settings.config.application_id == "count-orders"
    assert set(settings.flows[0].sinks) == {"customer-totals"}


def test_settings_of_the_command_line_override_the_file(tmp_path):
    path = tmp_path / "worker.toml"
    path.write_text(PLAIN + TOPOLOGY, encoding="utf-8")
    overrides = ["num_standby_replicas=2", "application_server=pod-3.workers:8080", 'client_tags={zone="a"}']
    config = SidecarSettings.from_toml(path, overrides).config
    assert (config.num_standby_replicas, config.client_tags) == (2, {"zone": "a"})
    assert str(config.endpoint.host) == "pod-3.workers"


@pytest.mark.parametrize("pair", ["num_standby_replicas", "=2"])
def test_an_override_that_is_not_a_pair_is_refused(tmp_path, pair):
    with pytest.raises(ConfigError, match="--set: write KEY=VALUE"):
        SidecarSettings.from_toml(tmp_path / "worker.toml", [pair])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (PLAIN, r"topology: write a \[\[topology.subtopology\]\]"),
        (PLAIN + "topology = 7", "topology: write"),
        (PLAIN + "[topology]\nsubtopology = []", "topology: write"),
        (PLAIN + "[[topology.subtopology]]", r"subtopology\[0\].sources = \[\]: must be a list of at least one"),
        (PLAIN + "[[topology.subtopology]]\nsources = 'a'", r"subtopology\[0\].sources = 'a': must be a list"),
        (PLAIN + "[[topology.subtopology]]\nsources = ['a']\nsink = ['b']", r"subtopology\[0\].sink: no such setting"),
        (
            PLAIN + "[[topology.subtopology]]\nsources = ['a']\nrepartition_sources = [{name = 'b', partitions = 0}]",
            r"repartition topic b: partitions = 0: must be a whole number",
        ),
        (
            PLAIN + "[[topology.subtopology]]\nsources = ['a']\nrepartition_sources = ['a']",
            r"a: named among sources and among repartition_sources",
        ),
        (
            PLAIN + "[[topology.subtopology]]\nsources = ['a']\nstores = [{name = 's', source = 'b'}]",
            r"store s: source = 'b': must be one of a",
        ),
        (
            PLAIN + "[[topology.subtopology]]\nsources = ['a']\ncopartitioned = [['a', 'b']]",
            r"copartitioned: b: must be among the sources",
        ),
        (
            PLAIN + "[topology]\ndescription = 'no.txt'\n[[topology.subtopology]]\nsources = ['a']",
            r"topology_description = 'no.txt': /.*no.txt cannot be read",
        ),
        (PLAIN + "[[topology.subtopology]]\nsources = ['a']\nstores = [7]", r"stores\[0\] = 7: must be a name"),
        (
            PLAIN + "[[topology.subtopology]]\nsources = ['a']\nstores = [{name = 's', changelog = 'no'}]",
            r"stores\[0\].changelog = 'no': must be true or false",
        ),
        (
            PLAIN + "[[topology.subtopology]]\nsources = ['a']\nstores = ['two words']",
            r"application_id = 'app': 'app-two words-changelog' cannot be a topic's name",
        ),
        (
            PLAIN + "[[topology.subtopology]]\nsources = ['a']\nstores = [{name = 's', drop_headers = 1}]",
            r"stores\[0\].drop_headers = 1: must be true or false",
        ),
        (
            PLAIN + "[[topology.subtopology]]\nsources = ['a']\nstores = [{name = 's', ttl_ms = '5'}]",
            r"store s: ttl_ms = '5': must be a whole number of milliseconds, 1 to",
        ),
        (
            PLAIN + "[[topology.subtopology]]\nsources = ['a']\nstores = [{name = 's', ttl_clock = 'event'}]",
            r"store s: ttl_clock = 'event': must be one of stream, wall",
        ),
        (
            PLAIN + "[[topology.subtopology]]\nsources = ['a']\nstores = [{name = 's', in_memory = 1}]",
            r"stores\[0\].in_memory = 1: must be true or false",
        ),
        (
            PLAIN + "[[topology.subtopology]]\nsources = ['a']\nstores = [{name = 's', changelog_config = 'x'}]",
            r"store s: changelog_config = 'x': must map names of topic settings",
        ),
        (
            PLAIN
            + "[[topology.subtopology]]\nsources = ['a']\nstores = [{name = 's', changelog_config.'segment.m' = 1}]",
            r"store s: changelog_config: 'segment.m': no such setting of a topic; did you mean segment.ms",
        ),
        (
            PLAIN + "[[topology.subtopology]]\nsources = ['a']\nstores = [{name = 's', type = 'windowed'}]",
            r"stores\[0\].type = 'windowed': is not supported yet; supported are key_value, timestamped_key_value",
        ),
        (
            PLAIN + "[[topology.subtopology]]\nsources = ['a']\nstores = [{name = 's', type = 'lru'}]",
            r"stores\[0\].type = 'lru': must be one of key_value, timestamped_key_value",
        ),
        (
            PLAIN + "[[topology.subtopology]]\nsources = ['a']\nstores = [{changelog = true}]",
            r"stores\[0\].name = None",
        ),
        (PLAIN + "[[topology.subtopology]]\nsources = ['a']\nstores = ['s', 's']", "store names used twice: s"),
        (
            PLAIN + "[[topology.subtopology]]\nsources = ['in']\n[[topology.subtopology]]\nsources = ['in']",
            "topic in is read by subtopologies 0 and 1; a topic has one reader",
        ),
        (PLAIN + TOPOLOGY + "[topology.global_table]\nname = 't'", r"write a \[\[topology.global_table\]\] table"),
        (GLOBAL + "name = 't'", r"topology.global_table\[0\].topic: is missing; it is a topic"),
        (GLOBAL + "topic = 't'", r"topology.global_table\[0\].name: is missing; it is a non-empty string"),
        (GLOBAL + "name = 't'\ntopic = 7", "global table t: topic = 7: must be the name of a topic"),
        (GLOBAL + "name = 't'\ntopic = 't'\ntype = 'lru'", r"global_table\[0\].type = 'lru': must be one of"),
        (GLOBAL + "name = 't'\ntopic = 't'\nstores = []", r"global_table\[0\].stores: no such setting"),
        (GLOBAL + "name = 'totals'\ntopic = 't'", "global table totals: is also the name of a store"),
        (
            PLAIN + "[[topology.subtopology]]\nsources = ['a']\non_error = []",
            r"on_error = \[\]: must be 'fail', 'skip', ",
        ),
        (
            PLAIN + "[[topology.subtopology]]\nsources = ['a']\nin_time_order = 'no'",
            r"topology.subtopology\[0\].in_time_order = 'no': must be true or false",
        ),
        (
            PLAIN + "[[topology.subtopology]]\nsources = ['a']\non_error = {skip = 1}",
            r"on_error = {'skip': 1}: must be 'f",
        ),
        (
            PLAIN + '[topology]\ndescription = "\\u0000"\n[[topology.subtopology]]\nsources = ["a"]',
            r"topology_description = '\\x00': .* cannot be read",
        ),
        (PLAIN.replace("app.sock", "x" * 108) + TOPOLOGY, "must be a path of 1 to 107 bytes"),
        (PLAIN.replace("app.sock", "tcp://0.0.0.0:1") + TOPOLOGY, "on loopback only"),
        (PLAIN.replace("app.sock", "tcp://127.0.0.1:1") + TOPOLOGY, "TCP needs a socket_token"),
        (PLAIN + "socket_token = 'short'\n" + TOPOLOGY, "must be a string of 16 to 255 characters"),
        (PLAIN.replace('socket = "app.sock"', "") + TOPOLOGY, "socket = None: must be a path"),
        (PLAIN + "sockett = 'x'\n" + TOPOLOGY, "sockett: no such setting"),
        ("what is this", "worker.toml"),
    ],
)
def test_a_wrong_value_is_refused_with_its_key(tmp_path, text, says):
    with pytest.raises(ConfigError, match=says):
        read(tmp_path, text)


def test_a_token_is_never_shown(tmp_path):
    secret = "a secret of some length"
    settings = read(tmp_path, PLAIN + f"socket_token = '{secret}'\n" + TOPOLOGY)
    assert settings.config.socket_token == secret
    assert secret not in repr(settings)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("/run/app.sock", UnixAddress),
        ("tcp://127.0.0.1:7070", TcpAddress),
        ("tcp://[::1]:0", TcpAddress),
    ],
)
def test_an_address_is_parsed(text, address):
    address_read = read_address(text)
    assert type(address_read) is address
    assert str(address_read) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tcp://",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:x",
        "tcp://127.0.0.1:²",
        "tcp://127.0.0.1:70000",
        "tcp://127.0.0.1:" + "1" * 5_000,
        "tcp://example.org:1",
    ],
)
def test_an_impossible_address_is_refused(text):
    with pytest.raises(ConfigError, match="socket = "):
        read_address(text)


def test_an_address_that_is_taken_is_refused_with_the_fix(tmp_path):
    with listen(TcpAddress("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as refused:
            listen(TcpAddress("127.0.0.1", port))
    fix = "the address is in use; choose another port, or port 0 for a free one"
    assert str(refused.value) == f"socket = tcp://127.0.0.1:{port}: cannot listen there: {fix}"
    with (
        listen(UnixAddress(tmp_path / "app.sock")),
        pytest.raises(ConfigError, match=r"end it, or choose another path$"),
    ):
        listen(UnixAddress(tmp_path / "app.sock"))
    with pytest.raises(ConfigError, match=r"cannot listen there: No such file or directory; choose another path$"):
        listen(UnixAddress(tmp_path / "no-such-folder" / "app.sock"))
