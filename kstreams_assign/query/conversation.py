"""One connection at a worker's query endpoint, as a machine without a socket: messages in, replies and queries out.

Both sides prove that they know ``query_token`` without sending it: each signs the other's nonce. So a process that
answers at a wrong endpoint learns no secret, and a recorded connection opens no other one. What must not live here:
sockets, stores.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from kstreams_assign.errors import QueryRefused
from kstreams_assign.query.messages import (
    ID_MAX,
    NONCE_BYTES,
    VERSION,
    Get,
    error_message,
    proof,
    read_get,
)
from kstreams_assign.wire.framing import Message


@dataclass(frozen=True, slots=True)
class Reply:
    """Send this message, and close the connection after it if ``hang_up``."""

    message: Message
    hang_up: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """Answer this query, with a message of this id."""

    number: int
    get: Get


class Conversation:
    """What one client has said so far. ``nonce`` is random and used once."""

    def __init__(self, application_id: str, token: str | None, nonce: bytes) -> None:
        self._application_id = application_id
        self._token = token
        self._nonce = nonce
        self.is_open = False
        """Whether the client has proved that it may ask."""

    def opening(self) -> Message:
        """Return the first message, which the worker sends."""
        return {"version": VERSION, "nonce": self._nonce}

    def take(self, message: Message) -> Reply | Asked:
        """Take the next message of the client."""
        number = message.get("id")
        if type(number) is not int or not 0 <= number <= ID_MAX:
            return Reply(error_message(None, "bad_request", f"id must be a whole number from 0 to {ID_MAX}"))
        op = message.get("op")
        if not self.is_open:
            if op != "hello":
                return Reply(error_message(number, "unauthorized", "send hello first"), hang_up=True)
            return self._greet(number, message)
        if op != "get":
            return Reply(error_message(number, "bad_request", "op must be get; hello was sent already"))
        try:
            return Asked(number, read_get(message))
        except QueryRefused as cause:
            return Reply(error_message(number, cause.code, cause.text))

    def _greet(self, number: int, message: Message) -> Reply:
        try:
            self._let_in(message)
        except QueryRefused as cause:
            return Reply(error_message(number, cause.code, cause.text), hang_up=True)
        self.is_open = True
        proved = proof(self._token, "server", self._nonce, message["nonce"])
        return Reply({"id": number, "ok": {"application_id": self._application_id, "proof": proved}})

    def _let_in(self, message: Message) -> None:
        version, nonce, proved = message.get("version"), message.get("nonce"), message.get("proof")
        if version != VERSION:
            raise QueryRefused("unsupported_version", f"this worker speaks version {VERSION}")
        if type(nonce) is not bytes or len(nonce) != NONCE_BYTES:
            raise QueryRefused("bad_request", f"hello: nonce must be {NONCE_BYTES} bytes")
        if type(proved) is not bytes:
            raise QueryRefused("bad_request", "hello: proof must be bytes")
        if self._token is not None and not hmac.compare_digest(
            proved, proof(self._token, "client", self._nonce, nonce)
        ):
            raise QueryRefused("unauthorized", "the proof is wrong; use the query_token of the worker")
        wanted = message.get("application_id")
        if wanted is not None and wanted != self._application_id:
            raise QueryRefused("wrong_application", "this worker belongs to another application")
