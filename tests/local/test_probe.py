"""The hand-packed request, against sockets that are no brokers. (The real one is asked in test_broker.py.)"""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from kstreams_assign.local.probe import brokers_known


def answering(body: bytes):
    """A port whose first caller gets ``body`` and then the end of the stream."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener, listener.accept()[0] as caller:
            caller.recv(1000)
            caller.sendall(body)

    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


def test_a_broker_that_lists_no_broker_is_not_ready():
    assert brokers_known(answering(struct.pack(">iii", 8, 1, 0)), 60) == 0


def test_a_broker_that_lists_itself_is_ready():
    assert brokers_known(answering(struct.pack(">iii", 8, 1, 1)), 60) == 1


@pytest.mark.parametrize("body", [b"", b"\0\0", struct.pack(">i", 8), struct.pack(">iI", 8, 1)])
def test_an_answer_that_breaks_off_is_no_answer(body):
    assert brokers_known(answering(body), 60) == 0


def test_a_closed_port_is_no_answer():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert brokers_known(port) == 0


def test_a_port_that_accepts_and_stays_silent_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert brokers_known(listener.getsockname()[1], timeout_s=0.05) == 0
