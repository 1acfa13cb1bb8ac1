"""OpenTelemetry spans, in the trace that a notification names in its attribute `traceparent`.

    publisher ─▶ broker ─▶ broker ─▶ pipeline ─▶ subscriber        each a span with the publisher's for its parent

The attribute is that of CloudEvents' extension for distributed tracing, in the form of W3C Trace Context. A
notification keeps its content on its way, so all spans of its way have the same parent. What has no such attribute
has no spans, and costs none.

`publishing` and `receiving` are for programs: their spans go where the program's own go. `Spans` sends those of a
broker or a pipeline to a collector.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fairlead.errors import NotInstalled, ValueRefused

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext, Tracer

    from fairlead.model import Notification

__all__ = ["TRACEPARENT", "TRACESTATE", "Spans", "parent_of", "publishing", "receiving"]

TRACEPARENT: Final = "traceparent"
"""The attribute with the trace and the span that a notification belongs to."""
TRACESTATE: Final = "tracestate"
SYSTEM: Final = {"messaging.system": "fairlead"}
TRACES: Final = "/v1/traces"
WAIT_MS: Final = 5_000
"""The time that what waits for a collector is given at the end."""

Values: TypeAlias = Mapping[str, str | int | float | bool | Sequence[str]]


def parent_of(carrier: Mapping[str, Any]) -> Context | None:
    """The context that `traceparent` and `tracestate` name; None where they name none."""
    if not isinstance(carrier.get(TRACEPARENT), str):
        return None
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    state = carrier.get(TRACESTATE)
    given = {TRACEPARENT: carrier[TRACEPARENT]} | ({TRACESTATE: state} if isinstance(state, str) else {})
    found = TraceContextTextMapPropagator().extract(given)
    return found if trace.get_current_span(found).get_span_context().is_valid else None


@contextmanager
def publishing(attributes: Mapping[str, Any], name: str = "publish") -> Iterator[dict[str, Any]]:
    """A span for a publication, and the attributes to publish in it: they name the span. What names one has it as
    the parent."""
    tracer = _tracer()
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    parent = parent_of(attributes)
    with tracer.start_as_current_span(
        name,
        context=parent,
        kind=SpanKind.PRODUCER,
        attributes=SYSTEM | {"messaging.operation.type": "send"},
    ):
        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier)
        yield {**attributes, **carrier}


@contextmanager
def receiving(notification: Notification, name: str = "receive") -> Iterator[Span]:
    """A span for what is done with a notification, in the trace that it names, or else in the current one."""
    tracer = _tracer()
    from opentelemetry.trace import SpanKind

    attributes = SYSTEM | {"messaging.operation.type": "process"}
    if notification.id is not None:
        attributes |= {"messaging.message.id": notification.id}
    with tracer.start_as_current_span(
        name, context=parent_of(_names(notification)), kind=SpanKind.CONSUMER, attributes=attributes
    ) as span:
        yield span


def _names(notification: Notification) -> dict[str, Any]:
    return {name: notification.get(name, None) for name in (TRACEPARENT, TRACESTATE)}


def _tracer() -> Tracer:
    """The tracer of the program, as it has set OpenTelemetry up."""
    try:
        from opentelemetry import trace
    except ModuleNotFoundError:
        raise NotInstalled.extra("OpenTelemetry", "telemetry") from None
    return trace.get_tracer("fairlead")


class Spans:
    """The spans of a process of ours. They are sent by a thread beside it, which never holds it up."""

    def __init__(self, provider: Any) -> None:
        """`provider` is a TracerProvider of OpenTelemetry's SDK."""
        self._provider = provider
        self._tracer: Tracer = provider.get_tracer("fairlead")

    @classmethod
    def sent_to(cls, url: str, service: str, instance: str) -> Spans:
        """Spans for a collector, by OTLP over HTTP: `http://host:4318`.

        Headers, certificates and the like are those of OpenTelemetry's environment variables.
        """
        if not url.startswith(("http://", "https://")):
            raise ValueRefused(f"not the address of a collector: {url!r}", hint="http://localhost:4318")
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ModuleNotFoundError:
            raise NotInstalled.extra("OpenTelemetry", "telemetry") from None
        name = os.environ.get("OTEL_SERVICE_NAME", service)
        provider = TracerProvider(
            resource=Resource.create({"service.name": name, "service.instance.id": instance}),
            shutdown_on_exit=False,
        )
        url = url.rstrip("/")
        endpoint = url if url.endswith(TRACES) else url + TRACES
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
        return cls(provider)

    def record(
        self,
        name: str,
        start_us: int,
        end_us: int,
        *,
        parent: Context | None = None,
        links: Sequence[SpanContext] = (),
        attributes: Values | None = None,
    ) -> None:
        """Record a span that is over: what it is called, from when to when, and its attributes."""
        with self.recording(name, start_us, end_us, parent=parent, links=links, attributes=attributes):
            pass

    @contextmanager
    def recording(
        self,
        name: str,
        start_us: int,
        end_us: int,
        *,
        parent: Context | None = None,
        links: Sequence[SpanContext] = (),
        attributes: Values | None = None,
    ) -> Iterator[tuple[SpanContext, Context]]:
        """The same, while those below it are recorded: its own context, to link to, and the parent of those."""
        from opentelemetry.context import Context
        from opentelemetry.trace import Link, set_span_in_context

        span = self._tracer.start_span(
            name,
            context=Context() if parent is None else parent,
            attributes=SYSTEM | dict(attributes or {}),
            links=[Link(each) for each in links],
            start_time=start_us * 1_000,
        )
        try:
            yield span.get_span_context(), set_span_in_context(span)
        finally:
            span.end(end_us * 1_000)

    def close(self) -> None:
        """Send what waits, within some seconds, and end."""
        self._provider.force_flush(WAIT_MS)
        self._provider.shutdown()
