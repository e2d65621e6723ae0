"""A program that cannot listen names the reason and the fix."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from kstreams_assign.adapters.listening import describe_listen_error


def failure(address: tuple[str, int]) -> OSError:
    with socket.socket() as listener, pytest.raises(OSError, match=r"^\[Errno") as raised:
        listener.bind(address)
    return raised.value


def test_an_address_in_use_is_answered_with_another_port_or_a_free_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        cause = failure(taken.getsockname())
    assert describe_listen_error(cause) == "the address is in use; choose another port, or port 0 for a free one"
    assert describe_listen_error(cause, "none") == "the address is in use; choose another port, or none for a free one"


def test_an_address_of_another_machine_is_answered_with_one_of_this_machine() -> None:
    text = "this machine does not have that address; choose one of its own, such as 127.0.0.1"
    assert describe_listen_error(failure(("192.0.2.1", 8080))) == text  # an address for documentation (RFC 5737)


def test_a_host_without_an_address_is_named_as_the_reason() -> None:
    cause = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert describe_listen_error(cause).startswith("the host has no address (Name or service not known); choose")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (errno.EACCES, "this process is not allowed to use that port; choose one of 1024 or above"),
        (errno.EMFILE, os.strerror(errno.EMFILE)),
    ],
)
def test_another_reason_is_the_operating_systems_without_its_number(number: int, text: str) -> None:
    assert describe_listen_error(OSError(number, os.strerror(number))) == text
