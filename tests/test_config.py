"""Settings are refused at start, by key, value and what is allowed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from kstreams_assign.config import Config, read_endpoint
from kstreams_assign.errors import ConfigError
from kstreams_assign.model import HostInfo

NEEDED = {"application_id": "app", "bootstrap_servers": "localhost:9092"}


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("acceptable_recovery_lag", -1, ">= 0"),
        ("max_warmup_replicas", 0, ">= 1"),
        ("probing_rebalance_interval_ms", 59_999, ">= 60000"),
        ("num_standby_replicas", True, "whole number"),
        ("num_standby_replicas", "1", "whole number"),
        ("assignor", "best", "high_availability"),
        ("auto_offset_reset", "none", "earliest"),
        ("application_server", "here", "HOST:PORT"),
        ("application_server", "here:99999", "HOST:PORT"),
        ("http", "8080", "HOST:PORT"),
        ("http", ":8080", "HOST:PORT"),
        ("http", 8080, "HOST:PORT"),
        ("http", "here:" + "1" * 5_000, "HOST:PORT"),
        ("session_timeout_ms", 2**31, "<= 2147483647"),
        ("max_poll_interval_ms", 2**31, "<= 2147483647"),
        ("heartbeat_interval_ms", 20_000, "a third of session_timeout_ms"),
        ("max_poll_interval_ms", 1_000, "a third of max_poll_interval_ms"),
        ("heartbeat_interval_ms", 2**31, "<= 2147483647"),
        ("probing_rebalance_interval_ms", 2**62 + 1, "<= 4611686018427387904"),
        ("early_probing_floor_ms", 2**63, "<= 9223372036854775807"),
        ("warm_join_timeout_ms", 2**63, "<= 9223372036854775807"),
        ("state_cleanup_delay_ms", 2**63, "<= 9223372036854775807"),
        ("state_cleanup_dir_max_age_ms", 2**63, "<= 9223372036854775807"),
        ("commit_interval_ms", 2**63, "<= 9223372036854775807"),
        ("repartition_purge_interval_ms", 2**63, "<= 9223372036854775807"),
        ("application_id", "", "non-empty string"),
        ("process_name", "", "non-empty string"),
        ("process_name", 7, "non-empty string"),
        ("group_instance_id", "", "non-empty string"),
        ("group_membership_operation", "leave", "remain_in_group"),
        ("state_cleanup_dir_max_age_ms", -2, ">= -1"),
        ("replication_factor", 0, "must be a whole number >= 1 and <= 32767, or -1"),
        ("replication_factor", -2, "must be a whole number >= 1 and <= 32767, or -1"),
        ("client_rack", "", "non-empty string"),
        ("rack_aware_assignment_strategy", "nearest", "balance_subtopology"),
        ("rack_aware_assignment_traffic_cost", -1, ">= 0"),
        ("rack_aware_assignment_non_overlap_cost", 1.5, "whole number"),
        ("rack_aware_assignment_tags", ["zone"], "client_tags must have a value"),
        ("client_tags", {"a-key-that-is-too-long": "a"}, "at most 20 characters"),
        ("client_tags", dict.fromkeys("abcdef", "x"), "at most 5 tags"),
        ("client_tags", "zone", "a table of strings"),
        ("client_tags", ["zone"], "a table of strings"),
        ("rack_aware_assignment_tags", "zone", "a list of strings"),
        ("assignor", ["sticky"], "must be one of"),
        ("balance_by", "weight", "tasks, input_rate, state_size"),
        ("balance_by", None, "must be one of"),
    ],
)
def test_a_wrong_value_is_refused_by_key_value_and_what_is_allowed(key: str, value: object, allowed: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Config.from_mapping({**NEEDED, key: value})
    assert key in str(refused.value)
    assert str(value) in str(refused.value)
    assert allowed in str(refused.value)


def test_balance_by_load_needs_the_assignor_that_reads_loads() -> None:
    assert Config.from_mapping({**NEEDED, "balance_by": "state_size"}).balance_by == "state_size"
    for key, other in (("assignor", "sticky"), ("rack_aware_assignment_strategy", "min_traffic")):
        with pytest.raises(ConfigError, match=f"balance_by = 'input_rate': needs {key} = .*, not {other!r}"):
            Config.from_mapping({**NEEDED, "balance_by": "input_rate", key: other})
        assert Config.from_mapping({**NEEDED, key: other}).balance_by == "tasks"
    in_streams_group = {"group_protocol": "streams", "balance_by": "input_rate", "assignor": "sticky"}
    assert Config.from_mapping({**NEEDED, **in_streams_group}).balance_by == "input_rate", "a warning says so there"


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("client_tags", {"zone": 3}, "client_tags: zone = 3: must be a string, in quotes"),
        ("client", {"socket.timeout.ms": 30}, "client: socket.timeout.ms: must be a string, in quotes"),
        ("client", "sasl.password=secret", "client: must be a table of strings"),
        ("rack_aware_assignment_tags", [1], "rack_aware_assignment_tags = (1,): must be a list of strings"),
    ],
)
def test_what_is_in_a_table_is_checked_too_and_what_may_be_secret_is_not_shown(
    key: str, value: object, said: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        Config.from_mapping({**NEEDED, key: value})
    assert str(refused.value) == said


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("num_standbys", "did you mean num_standby_replicas?"),
        ("MAX_POLL_RECORDS", "did you mean max_poll_records?"),
        ("http-address", "allowed are acceptable_recovery_lag, application_id"),
        ("max.poll.interval.ms", "write max_poll_interval_ms"),
        ("num.standby.replicas", "write num_standby_replicas"),
        ("main.consumer.session.timeout.ms", "write session_timeout_ms"),
        ("client.tag.zone", "write client_tags = { zone = ... }"),
        ("group.id", "use application_id"),
        ("task.assignor.class", "use assignor"),
        ("num.stream.threads", "a worker calls your functions on one thread; start more processes"),
        ("security.protocol", "it is a setting of the Kafka clients: put 'security.protocol' into client"),
        ("producer.linger.ms", "it is a setting of the Kafka clients: put 'linger.ms' into client"),
        ("sasl_password", "it is a setting of the Kafka clients: put 'sasl.password' into client"),
    ],
)
def test_an_unknown_key_is_refused_with_what_it_may_mean_and_without_its_value(key: str, hint: str) -> None:
    for make in (lambda: Config.from_mapping({**NEEDED, key: "hunter2"}), lambda: Config(**NEEDED, **{key: "hunter2"})):
        with pytest.raises(ConfigError) as refused:
            make()
        assert str(refused.value).startswith(f"{key}: no such setting; {hint}")
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("num.standby.replicas = 1", "num.standby.replicas: no such setting; write num_standby_replicas"),
        ("client.rack = 'a'", "client.rack: no such setting; write client_rack"),
        ("client.tag.zone = 'a'", "client.tag.zone: no such setting; write client_tags = { zone = ... }"),
        ("sasl.password = 'hunter2'", "sasl.password: no such setting; it is a setting of the Kafka clients: put"),
    ],
)
def test_a_dotted_key_of_a_file_is_refused_by_its_whole_name(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "worker.toml"
    path.write_text(f"application_id = 'app'\nbootstrap_servers = 'localhost:9092'\n{line}\n")
    with pytest.raises(ConfigError) as refused:
        Config.from_toml(path)
    assert str(refused.value).startswith(said)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("key", sorted(NEEDED))
def test_a_missing_key_without_default_is_named_with_an_example(key: str) -> None:
    given = {k: v for k, v in NEEDED.items() if k != key}
    for make in (lambda: Config.from_mapping(given), lambda: Config(**given)):  # type: ignore[arg-type]  # the test
        with pytest.raises(ConfigError) as refused:
            make()
        example = str(refused.value).removeprefix(f"{key}: missing; it has no default; set it, for example ")
        assert Config.from_mapping({**given, **tomllib.loads(example)})


def test_the_first_key_may_be_given_by_place() -> None:
    assert Config("app", "localhost:9092") == Config(**NEEDED)
    with pytest.raises(ConfigError, match=r"^bootstrap_servers: missing"):
        Config("app")  # type: ignore[call-arg]  # the test


ADDRESSES = (
    "localhost:9092",
    "b-1.example:9092,b-2.example:9093",
    " b-1:9092 , 10.0.0.1:9093 ",
    "[::1]:9092",
    "[fe80::1%eth0]:9092,b:1",
    "PLAINTEXT://localhost:9092",
    "plaintext://[::1]:9092",
    "b:65535",
    "my_host:9092",
)


@pytest.mark.parametrize("servers", ADDRESSES)
def test_complete_addresses_of_brokers_are_accepted(servers: str) -> None:
    assert Config("app", servers).bootstrap_servers == servers


def test_an_address_may_begin_with_the_security_protocol_that_is_set() -> None:
    assert Config("app", "sasl_ssl://b:9092", client={"security.protocol": "SASL_SSL"})


@pytest.mark.parametrize(
    ("servers", "fix"),
    [
        ("localhost", "add the port, such as localhost:9092"),
        ("b-1:9092,b-2", "add the port, such as b-2:9092"),
        ("[::1]", "add the port, such as [::1]:9092"),
        ("PLAINTEXT://b", "add the port, such as PLAINTEXT://b:9092"),
        ("::1", "put the IPv6 address into brackets and add a port, such as [::1]:9092"),
        ("2001:db8::1:9092", "put the IPv6 address into brackets"),
        ("b:9092,", "remove the empty entry"),
        (",", "remove the empty entry"),
        ("b:0", "the port of 'b:0' must be 1 to 65535"),
        ("b:99999", "the port of 'b:99999' must be 1 to 65535"),
        ("b:kafka", "'b:kafka' is not of that form"),
        ("b:", "'b:' is not of that form"),
        (":9092", "':9092' is not of that form"),
        ("b 9092", "'b 9092' is not of that form"),
        ("b:9092/topic", "'b:9092/topic' is not of that form"),
        ("SSL://b:9092", "remove SSL://, as security.protocol = 'plaintext' (under client) decides the protocol"),
    ],
)
def test_an_incomplete_address_of_a_broker_is_refused_with_the_fix(servers: str, fix: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Config("app", servers)
    beginning = f"bootstrap_servers = {servers!r}: must be HOST:PORT, several separated by commas; "
    assert str(refused.value).startswith(beginning + fix)


def test_a_file_gives_the_same_as_python(tmp_path: Path) -> None:
    path = tmp_path / "worker.toml"
    path.write_text(
        'application_id = "app"\nbootstrap_servers = "localhost:9092"\nnum_standby_replicas = 1\n'
        'rack_aware_assignment_tags = ["zone"]\nclient_tags = { zone = "a" }\napplication_server = "host:7000"\n'
    )
    config = Config.from_toml(path)
    assert config == Config(
        **NEEDED,
        num_standby_replicas=1,
        rack_aware_assignment_tags=("zone",),
        client_tags={"zone": "a"},
        application_server="host:7000",
    )
    assert config.endpoint == HostInfo("host", 7000)


def test_a_file_that_cannot_be_read_is_named_by_its_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad.toml").write_text("application_id = ")
    (tmp_path / "latin.toml").write_bytes('application_id = "grün"'.encode("latin-1"))
    monkeypatch.chdir(tmp_path)
    for name in ("bad.toml", "latin.toml", "none.toml"):
        with pytest.raises(ConfigError, match=re.escape(f"{tmp_path / name}: cannot be read as TOML: ")):
            Config.from_toml(name)


def test_no_secret_shows_when_a_config_is_printed():
    secret = "hunter2-hunter2-hunter2"
    config = Config("app", "broker:9092", client={"sasl.password": secret}, socket_token=secret)
    assert secret not in f"{config!r} {config}"


@pytest.mark.parametrize("token", ["s" * 15, "s" * 256, "", 12345678901234567890, b"sixteen bytes ..", ["s" * 16]])
def test_a_token_that_no_application_could_send_is_refused_and_not_shown(token):
    with pytest.raises(
        ConfigError, match=r"socket_token .*, not shown\): must be a string of 16 to 255 characters"
    ) as raised:
        Config("app", "broker:9092", socket_token=token)
    assert not token or str(token) not in str(raised.value)


def test_tokens_of_every_allowed_length_are_taken():
    for length in (16, 255):
        assert Config("app", "broker:9092", socket_token="s" * length).socket_token == "s" * length


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"query": "10.0.0.5:7000"}, r"query = '10.0.0.5:7000': needs a query_token"),
        ({"query": "0.0.0.0:7000"}, "needs a query_token"),
        ({"query": "worker-1:7000"}, "needs a query_token"),
        ({"query": "0.0.0.0:7000", "query_token": "s" * 16}, "set application_server to one, as HOST:7000"),
        ({"query": "[::]:7000", "query_token": "s" * 16}, "set application_server to one"),
        ({"query": "127.0.0.1:0", "application_server": "a:7000"}, "takes a free port, but application_server"),
        ({"query": "7000"}, "query = '7000': must be HOST:PORT"),
        ({"query": "127.0.0.1:7000", "query_token": "short"}, r"query_token \(5 characters, not shown\)"),
    ],
)
def test_queries_are_answered_only_where_they_are_protected_and_can_be_asked(settings, refusal):
    with pytest.raises(ConfigError, match=refusal):
        Config("app", "broker:9092", **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"query": "127.0.0.1:7000"},
        {"query": "localhost:0"},
        {"query": "[::1]:0", "application_server": "a:0"},
        {"query": "10.0.0.5:7000", "query_token": "s" * 16},
        {"query": "0.0.0.0:7000", "query_token": "s" * 16, "application_server": "a:7001"},
    ],
)
def test_addresses_for_queries_that_are_allowed(settings):
    assert Config("app", "broker:9092", **settings).query == settings["query"]
    assert "s" * 16 not in repr(Config("app", "broker:9092", **settings))


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        # what Utils.getHost and Utils.getPort of kafka-clients 4.3.1 return
        ("pod-1.workers:8080", HostInfo("pod-1.workers", 8080)),
        ("[::1]:8080", HostInfo("::1", 8080)),
        ("2001:db8::7:8080", HostInfo("2001:db8::7", 8080)),
        ("http://pod:8080", HostInfo("pod", 8080)),
        ("http://[::1]:80", HostInfo("::1", 80)),
        ("://pod:80", HostInfo("pod", 80)),
        ("http:80", HostInfo("http", 80)),
        ("pod:00080", HostInfo("pod", 80)),
        ("pod:99999", HostInfo("pod", 99_999)),
        ("pod:0", HostInfo("pod", 0)),
        (":80", HostInfo("", 80)),
        ("[]:80", HostInfo("", 80)),
        ("pod:", None),
        ("pod:80/x", None),
        ("pod:80\n", None),
        ("x y:80", None),
        ("p@q:1", None),
        ("ä:80", None),
        ("pod:٣", None),
        ("pod:2147483648", None),
        ("pod:" + "9" * 5_000, None),
    ],
)
def test_an_endpoint_is_read_as_java_reads_it(text: str, endpoint: HostInfo | None) -> None:
    assert read_endpoint(text) == endpoint


@pytest.mark.parametrize("text", ["[::1]:8080", "http://pod:8080"])
def test_the_endpoint_of_a_process_is_sent_as_it_was_set(text: str) -> None:
    config = Config(**NEEDED, application_server=text)
    assert (config.application_server, config.endpoint) == (text, read_endpoint(text))


@pytest.mark.parametrize("text", [":80", "pod:99999", "pod:80/x", "x y:80", "ä:80", "pod_1@a:80"])
def test_an_endpoint_that_java_cannot_read_or_no_process_can_ask_is_refused_with_the_fix(text: str) -> None:
    with pytest.raises(ConfigError, match=r"must be HOST:PORT.* set it to an address such as pod-1:8080") as refused:
        Config(**NEEDED, application_server=text)
    assert str(refused.value).startswith(f"application_server = {text!r}: ")


def test_a_query_address_that_cannot_be_an_endpoint_needs_one() -> None:
    settings = {**NEEDED, "query": "bücher.example:7000", "query_token": "s" * 16}
    with pytest.raises(ConfigError, match=r"query = 'bücher.example:7000': .* set application_server to one"):
        Config(**settings)
    assert Config(**settings, application_server="a:7000").endpoint == HostInfo("a", 7000)
