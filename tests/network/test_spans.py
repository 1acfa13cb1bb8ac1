"""A notification that names a trace of OpenTelemetry's has a span in it at each broker on its way."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from fairlead import Notification, telemetry
from fairlead.errors import ValueRefused
from fairlead.network import sync
from fairlead.telemetry import parent_of, publishing, receiving
from fairlead_lab.testing.brokers import Brokers, wait_until
from fairlead_lab.testing.collector import collecting

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = PARENT.removesuffix("01") + "00"


@pytest.mark.parametrize("is_logged", [True, False])
def test_each_broker_on_the_way_records_one_span_below_the_publishers(
    brokers: Brokers, tmp_path: Path, is_logged: bool
) -> None:
    before = time.time_ns() // 1_000
    with collecting() as (collector, spans):

        def path(name: str) -> Path | None:
            return tmp_path / name if is_logged else None

        one = brokers.start("one", path("one"), spans=collector)
        two = brokers.start("two", path("two"), spans=collector, links=(one.url,))
        with sync.connect(two.url, name="reader") as reader, sync.connect(one.url) as writer:
            subscription = reader.subscribe("x = 1")
            wait_until(lambda: writer.tables()["subscriptions"])
            for id, given in {"a": PARENT, "b": UNSAMPLED, "c": "nonsense", "d": 7}.items():
                writer.publish({"id": id, "x": 1, "traceparent": given})
            writer.publish({"id": "e", "x": 1})
            assert [subscription.get(timeout=60).id for _ in "abcde"] == [*"abcde"]
        brokers.stop(two)
        brokers.stop(one)
    after = time.time_ns() // 1_000
    assert sorted(each.name for each in spans) == ["route one", "route two"]
    for each in spans:
        assert (each.trace, each.parent) == (PARENT[3:35], PARENT[36:52])
        assert before <= each.start <= each.end <= after
        assert (each.service, each.attributes["messaging.message.id"]) == ("fairlead-broker", "a")
    first, second = sorted(spans, key=lambda each: each.name)
    assert (first.instance, first.attributes["fairlead.neighbours"]) == ("one", ["two"])
    assert second.attributes["fairlead.neighbours"] == []
    assert second.attributes["fairlead.clients"] == ["reader"]


def test_a_collector_that_is_not_there_holds_nobody_up(brokers: Brokers) -> None:
    server = brokers.start("b", spans="http://127.0.0.1:9")
    with sync.connect(server.url) as client:
        subscription = client.subscribe("true")
        client.publish({"id": "a", "traceparent": PARENT})
        assert subscription.get(timeout=60).id == "a"


def test_the_address_of_a_collector_is_a_url() -> None:
    with pytest.raises(ValueRefused, match="not the address of a collector"):
        telemetry.Spans.sent_to("localhost:4318", "s", "i")


def test_programs_publish_in_a_span_and_receive_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry, "_tracer", lambda: provider.get_tracer("test"))
    with publishing({"price": 1, "traceparent": PARENT, "tracestate": "a=b"}) as attributes:
        pass
    assert attributes["price"] == 1
    assert attributes["tracestate"] == "a=b"
    assert attributes["traceparent"].split("-")[1] == PARENT.split("-")[1]
    assert attributes["traceparent"] != PARENT
    with receiving(Notification.of({"id": "x", **attributes}), "handle"):
        pass
    sent, received = exporter.get_finished_spans()
    assert format(sent.context.span_id, "016x") == attributes["traceparent"].split("-")[2]
    assert received.parent is not None
    assert received.parent.span_id == sent.context.span_id
    assert (received.name, received.attributes["messaging.message.id"]) == ("handle", "x")
    assert parent_of({"traceparent": "00-0-0-00"}) is None
