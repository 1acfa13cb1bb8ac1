"""A schema registry in memory, on loopback: the calls of its HTTP interface that writers and readers make.

    POST /subjects/S/versions            a new version of a subject; its number, the same for the same schema
    POST /subjects/S                     the number and version of a schema that is there
    GET  /subjects/S/versions/V          a version, or `latest`
    GET  /schemas/ids/N                  a schema by its number

A schema of Protobuf is kept compiled, as clients of Python send it, and given so whether or not they ask
(`?format=serialized`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import unquote, urlsplit

__all__ = ["running"]


class _Schemas:
    """All schemas by their number, and the numbers of each subject's versions. The lock is held by each call."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._schemas: list[dict[str, Any]] = []
        self._versions: dict[str, list[int]] = {}

    def post(self, path: list[str], body: dict[str, Any]) -> dict[str, Any] | None:
        schema = {key: body[key] for key in ("schema", "schemaType", "references") if body.get(key)}
        with self._lock:
            match path:
                case ["subjects", subject, "versions"]:
                    if schema not in self._schemas:
                        self._schemas.append(schema)
                    number = self._schemas.index(schema) + 1
                    versions = self._versions.setdefault(subject, [])
                    if number not in versions:
                        versions.append(number)
                    return {"id": number}
                case ["subjects", subject] if schema in self._schemas:
                    number = self._schemas.index(schema) + 1
                    versions = self._versions.get(subject, [])
                    return self._version(subject, versions.index(number) + 1) if number in versions else None
        return None

    def get(self, path: list[str]) -> dict[str, Any] | None:
        with self._lock:
            match path:
                case ["schemas", "ids", number] if int(number) <= len(self._schemas):
                    return self._schemas[int(number) - 1]
                case ["subjects", subject, "versions", version] if subject in self._versions:
                    latest = len(self._versions[subject])
                    return self._version(subject, latest if version == "latest" else int(version))
        return None

    def _version(self, subject: str, version: int) -> dict[str, Any] | None:
        versions = self._versions[subject]
        if not 0 < version <= len(versions):
            return None
        number = versions[version - 1]
        return {"subject": subject, "version": version, "id": number, **self._schemas[number - 1]}


class _Handler(BaseHTTPRequestHandler):
    schemas: _Schemas

    def do_GET(self) -> None:
        self._answer(self.schemas.get(self._path()))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer(self.schemas.post(self._path(), json.loads(body)))

    def _path(self) -> list[str]:
        return [unquote(each) for each in urlsplit(self.path).path.strip("/").split("/")]

    def _answer(self, found: dict[str, Any] | None) -> None:
        said = found or {"error_code": 40403, "message": "Schema not found"}
        content = json.dumps(said).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        return


@contextmanager
def running() -> Iterator[str]:
    """The address of a registry that is there while the block runs."""
    handler = type("_Registry", (_Handler,), {"schemas": _Schemas()})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
