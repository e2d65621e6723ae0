"""A stub of a schema registry: its HTTP contract in memory, as far as confluent-kafka's serializers ask for it.

No real registry can be started here, so what a registry decides (compatibility, references, rights) is not tested. A
schema has one id in all subjects, as in the real one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

FIRST_ID = 100


class RegistryStub:
    """Schemas by subject. ``refusal``: status, code and message that the next requests get instead of an answer."""

    def __init__(self) -> None:
        self.subjects: dict[str, list[dict[str, Any]]] = {}
        self.schemas: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.refusal: tuple[int, int, str] | None = None
        self.url = ""

    def answer(self, method: str, path: list[str], body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.refusal is not None:
            status, code, message = self.refusal
            return status, {"error_code": code, "message": message}
        match method, path:
            case "POST", ["subjects", subject, "versions"]:
                return 200, self._register(subject, body)
            case "POST", ["subjects", subject]:
                return self._look_up(subject, body)
            case "GET", ["schemas", "ids", number]:
                return self._by_id(int(number))
        return 404, {"error_code": 404, "message": f"HTTP 404 Not Found: {method} {path}"}

    def _register(self, subject: str, schema: dict[str, Any]) -> dict[str, Any]:
        if schema not in self.schemas:
            self.schemas.append(schema)
        versions = self.subjects.setdefault(subject, [])
        if schema not in versions:
            versions.append(schema)
        return {"id": FIRST_ID + self.schemas.index(schema)}

    def _look_up(self, subject: str, schema: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if subject not in self.subjects:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        if schema not in self.subjects[subject]:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        number = FIRST_ID + self.schemas.index(schema)
        return 200, {"subject": subject, "id": number, "version": 1, **schema}

    def _by_id(self, number: int) -> tuple[int, dict[str, Any]]:
        if not 0 <= number - FIRST_ID < len(self.schemas):
            return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
        return 200, self.schemas[number - FIRST_ID]


@contextmanager
def registry_stub() -> Iterator[RegistryStub]:
    """Serve a stub for the duration of the block."""
    stub = RegistryStub()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Leave the test's output alone."""

        def respond(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            path = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
            stub.requests.append(f"{self.command} {'/'.join(path)}")
            status, answer = stub.answer(self.command, path, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = respond  # noqa: N815  # the names that the server looks for

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        stub.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield stub
        finally:
            server.shutdown()
            thread.join()
