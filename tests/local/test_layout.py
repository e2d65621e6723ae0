"""The settings that a broker's data folder gets."""

from __future__ import annotations

import pytest

from kstreams_assign.errors import LocalBrokerError
from kstreams_assign.local import LocalBroker
from kstreams_assign.local.access import Access, Ports, Role
from kstreams_assign.local.layout import Layout, server_properties

PORTS = Ports(9092, 9093, 9094)


def test_settings_of_the_caller_go_over_ours_and_nothing_else_changes(tmp_path):
    layout = Layout(tmp_path)
    layout.write(PORTS, {"offsets.topic.num.partitions": "50", "message.max.bytes": "1"})
    written = dict(line.split("=", 1) for line in layout.properties.read_text().splitlines())
    ours = server_properties(PORTS, layout.records)
    assert written == {**ours, "offsets.topic.num.partitions": "50", "message.max.bytes": "1"}


def test_a_broker_listens_on_the_loopback_alone(tmp_path):
    properties = server_properties(PORTS, tmp_path)
    for key in ("listeners", "advertised.listeners"):
        assert all("://127.0.0.1:" in listener for listener in properties[key].split(","))


def test_a_controller_apart_has_a_folder_a_node_and_a_port_of_its_own_and_both_name_it_as_the_voter(tmp_path):
    broker = Layout(tmp_path, Role.BROKER)
    of = {layout.role: properties(layout) for layout in (broker, broker.controller)}
    assert [of[role]["process.roles"] for role in of] == ["broker", "controller"]
    assert {of[role]["controller.quorum.voters"] for role in of} == {"2@127.0.0.1:9093"}
    assert [of[role]["node.id"] for role in of] == ["1", "2"]
    assert [of[role]["listeners"] for role in of] == ["PLAINTEXT://127.0.0.1:9092", "CONTROLLER://127.0.0.1:9093"]
    assert broker.records != broker.controller.records
    assert broker.log != broker.controller.log


@pytest.mark.parametrize("role", [Role.COMBINED, Role.BROKER])
def test_a_broker_with_tls_has_no_listener_without(tmp_path, role):
    written = properties(Layout(tmp_path, role, Access(tmp_path / "tls.pem")))
    assert [name for name in written["listeners"].split(",") if not name.startswith("CONTROLLER")] == [
        "SSL://127.0.0.1:9092"
    ]
    assert "SSL:SSL" in written["listener.security.protocol.map"].split(",")
    assert written["ssl.keystore.location"] == written["ssl.truststore.location"] == str(tmp_path / "tls.pem")


@pytest.mark.parametrize(("tls", "protocol"), [(None, "SASL_PLAINTEXT"), ("tls.pem", "SASL_SSL")])
def test_where_clients_sign_in_the_broker_talks_to_itself_elsewhere(tmp_path, tls, protocol):
    access = Access(tls and tmp_path / tls, {"me": "secret"})
    broker = Layout(tmp_path, Role.BROKER, access)
    written = properties(broker)
    assert written["listeners"] == f"{protocol}://127.0.0.1:9092,INNER://127.0.0.1:9094"
    assert f"{protocol}:{protocol}" in written["listener.security.protocol.map"].split(",")
    assert written["inter.broker.listener.name"] == "INNER"
    assert properties(broker.controller)["listeners"] == "CONTROLLER://127.0.0.1:9093"
    assert broker.controller.access.credentials == ["--add-scram", "SCRAM-SHA-512=[name=me,password=secret]"]


@pytest.mark.parametrize("users", [{"me": 'a"b'}, {"me": "a,b]c"}, {"me": "a\\nb"}, {"you;me": "fine"}, {"me": ""}])
def test_users_that_the_settings_would_not_take_are_refused_and_no_password_is_shown(users):
    with pytest.raises(
        LocalBrokerError, match=r"^users: '(me|you;me)' or its password: must be of ASCII letters"
    ) as refusal:
        LocalBroker(users=users)
    assert not (users.get("me") and users["me"] in str(refusal.value))


def properties(layout: Layout) -> dict[str, str]:
    layout.write(PORTS, {})
    return dict(line.split("=", 1) for line in layout.properties.read_text().splitlines())


def test_only_the_end_of_the_log_is_quoted_and_a_missing_log_is_no_error(tmp_path):
    layout = Layout(tmp_path)
    assert layout.last_lines() == ""
    layout.log.write_text("\n".join(f"line {number}" for number in range(100)))
    assert layout.last_lines(2) == "line 98\nline 99"
