"""Batches of a pipeline are spans of OpenTelemetry's, and deliveries are in the traces of their publishers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fairlead.model.values import Record
from fairlead.spark import Config, Pipeline
from fairlead.spark.publishing import delivered
from fairlead.spark.spans import BatchSpans
from fairlead.telemetry import Spans
from fairlead_lab.testing.collector import collecting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("sink", ["json", "parquet", "typed"])
def test_a_batch_is_a_span_with_its_stages_and_links_to_what_it_delivers(
    spark: SparkSession, tmp_path: Path, sink: str
) -> None:
    events = [
        {"id": "a", "producer": "p", "x": 1, "traceparent": PARENT},
        {"id": "b", "producer": "p", "x": 1, "traceparent": "nonsense"},
        {"id": "c", "producer": "p", "x": 1},
        {"id": "d", "producer": "p", "x": 2, "traceparent": PARENT},
    ]
    if sink == "typed":
        frame = spark.createDataFrame(events, "id string, producer string, x long, traceparent string")
        frame.write.parquet(f"{tmp_path}/events")
    else:
        (tmp_path / "events").write_text("".join(f"{json.dumps(each)}\n" for each in events))
    asked = [{"id": f"s{n}", "subscriber": who, "filter": "x = 1"} for n, who in enumerate("vuu")]
    (tmp_path / "subscriptions").write_text("".join(f"{json.dumps(each)}\n" for each in asked))
    config = Config.of(
        {
            "name": "spanned",
            "output": str(tmp_path / "out"),
            "events": {
                "path": str(tmp_path / "events"),
                "format": "parquet" if sink == "typed" else "json",
            },
            "subscriptions": {"path": str(tmp_path / "subscriptions"), "format": "json"},
            "deliveries": {"buckets": 2, "format": "json" if sink == "json" else "parquet"},
            "report": False,
        }
    )
    with collecting() as (collector, found):
        spans = Spans.sent_to(collector, "fairlead-pipeline", config.name)
        Pipeline(config, spark).run(BatchSpans(config, spans).took)
        spans.close()
    [batch] = (each for each in found if each.name == "batch")
    assert (batch.service, batch.instance, batch.parent) == ("fairlead-pipeline", "spanned", "")
    assert (batch.attributes["fairlead.read"], batch.attributes["fairlead.deliveries"]) == (4, 6)
    stages = [each for each in found if each.parent == batch.span]
    assert {"ingest", "match"} & {each.name for each in stages}
    for each in stages:
        assert batch.start <= each.start <= each.end <= batch.end
    [delivery] = (each for each in found if each.name == "deliver")
    assert (delivery.trace, delivery.parent) == (PARENT[3:35], PARENT[36:52])
    assert delivery.links == (batch.span,)
    assert delivery.attributes["messaging.message.id"] == "a"
    assert delivery.attributes["fairlead.subscribers"] == ["u", "v"]
    assert len(found) == len(stages) + 2


def test_what_is_published_about_a_delivery_is_in_the_trace_of_the_delivered() -> None:
    content = Record({"x": 1, "traceparent": PARENT})
    assert delivered("ada", (0, "p", None, "1"), ["s"], content).get("traceparent") == PARENT
    assert delivered("ada", (0, "p", None, "1"), ["s"], Record({"x": 1})).get("traceparent", None) is None
