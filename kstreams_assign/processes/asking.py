"""Ask one process over HTTP."""

from __future__ import annotations

from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from kstreams_assign.processes.endpoint import Reply

ANSWER_S = 4.0
"""Shorter than the five seconds after which the status page takes a worker for silent."""

ANSWER_BYTES_MAX = 64 * 2**20
"""More than a worker with 100,000 tasks answers."""


def ask(url: str, path: str, accept: str) -> Reply | None:
    """Return the answer to GET; None if the process does not answer in time, or is busy with too many connections.

    None also for what no worker answers: another program may have the port by now.
    """
    address = urlsplit(url)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=ANSWER_S)
    with closing(connection):
        try:
            connection.request("GET", path, headers={"Accept": accept})
            answer = connection.getresponse()
            content_type, body = answer.getheader("Content-Type"), answer.read(ANSWER_BYTES_MAX + 1)
        except (OSError, HTTPException):
            return None
    is_whole = answer.length in {None, 0} and len(body) <= ANSWER_BYTES_MAX
    if content_type is None or answer.status not in set(HTTPStatus) or not is_whole:
        return None
    return Reply(answer.status, content_type, body)
