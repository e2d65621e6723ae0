"""Ask one process over HTTP."""

from __future__ import annotations

from contextlib import closing
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from kstreams_assign.processes.endpoint import Reply

ANSWER_S = 4.0
"""Shorter than the five seconds after which the status page takes a worker for silent."""


def ask(url: str, path: str, accept: str) -> Reply | None:
    """Return the answer to GET; None if the process does not answer in time, or is busy with too many connections."""
    address = urlsplit(url)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=ANSWER_S)
    with closing(connection):
        try:
            connection.request("GET", path, headers={"Accept": accept})
            answer = connection.getresponse()
            content_type, body = answer.getheader("Content-Type"), answer.read()
        except (OSError, HTTPException):
            return None
    return None if content_type is None else Reply(answer.status, content_type, body)
