"""A collector of OpenTelemetry spans on loopback: it takes OTLP over HTTP, and keeps what came."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

__all__ = ["Collected", "collecting"]


@dataclass(frozen=True, slots=True)
class Collected:
    """A span as it came."""

    service: str
    instance: str
    name: str
    trace: str
    span: str
    parent: str
    start: int
    end: int
    links: tuple[str, ...]
    """The spans that it links to."""
    attributes: dict[str, Any] = field(hash=False)


@contextmanager
def collecting() -> Iterator[tuple[str, list[Collected]]]:
    """The address of a collector, and the spans that it has."""
    found: list[Collected] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = ExportTraceServiceRequest()
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                import gzip

                body = gzip.decompress(body)
            request.ParseFromString(body)
            found.extend(_spans_in(request))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _spans_in(request: Any) -> Iterator[Collected]:
    for of_resource in request.resource_spans:
        resource = _values(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield Collected(
                    resource["service.name"],
                    resource["service.instance.id"],
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.start_time_unix_nano // 1_000,
                    span.end_time_unix_nano // 1_000,
                    tuple(link.span_id.hex() for link in span.links),
                    _values(span.attributes),
                )


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(given: Any) -> Any:
    kind = given.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in given.array_value.values]
    return getattr(given, kind)
