"""A broker without contact to its controller names no brokers, not even itself: librdkafka must not end the process."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

API_VERSIONS, METADATA, UNSUPPORTED_VERSION, UNKNOWN_TOPIC = 18, 3, 35, 3
CHILD = """
import sys
from kstreams_assign.adapters.confluent import ClusterAdmin

print(ClusterAdmin(sys.argv[1]).reach(60))
"""


class Broker:
    """Answers questions about the cluster: at first with itself, and then with no broker."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._asked = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        try:
            while True:
                peer, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()
        except OSError:
            return

    def _serve(self, peer: socket.socket) -> None:
        with peer:
            while len(head := peer.recv(4, socket.MSG_WAITALL)) == 4:
                request = peer.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
                api, version, number = struct.unpack(">hhi", request[:8])
                answer = self._versions(version) if api == API_VERSIONS else self._metadata(request)
                peer.sendall(struct.pack(">ii", len(answer) + 4, number) + answer)

    def _versions(self, version: int) -> bytes:
        """Version 0 only: of metadata the versions 0 and 1."""
        apis = [(METADATA, 0, 1), (API_VERSIONS, 0, 0)]
        error = UNSUPPORTED_VERSION if version else 0
        return struct.pack(">hi", error, len(apis)) + b"".join(struct.pack(">hhh", *api) for api in apis)

    def _metadata(self, request: bytes) -> bytes:
        """Brokers, the controller, and that there is none of the topics that were asked for."""
        self._asked += 1
        host = b"127.0.0.1"
        me = struct.pack(">ih", 1, len(host)) + host + struct.pack(">ih", self.port, -1)
        brokers = struct.pack(">i", 1) + me + struct.pack(">i", 1) if self._asked == 1 else struct.pack(">ii", 0, -1)
        (client_bytes,) = struct.unpack(">h", request[8:10])
        named = request[10 + client_bytes :]
        (count,) = struct.unpack(">i", named[:4])
        topics, at = [], 4
        for _ in range(max(0, count)):
            (size,) = struct.unpack(">h", named[at : at + 2])
            name = named[at : at + 2 + size]
            topics.append(struct.pack(">h", UNKNOWN_TOPIC) + name + struct.pack(">bi", 0, 0))
            at += 2 + size
        return brokers + struct.pack(">i", len(topics)) + b"".join(topics)


@pytest.fixture
def fenced() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.close()


def test_the_first_question_is_answered_by_a_broker_that_names_no_brokers(fenced: Broker) -> None:
    words = [sys.executable, "-c", CHILD, f"127.0.0.1:{fenced.port}"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert (ended.returncode, ended.stdout) == (0, "True\n"), ended.stderr
