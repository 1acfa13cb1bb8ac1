"""The desks of the sample: scopes on a pipeline, with a border at which currencies are mapped.

    DIRECTORY/desks.scopes   two desks, each of which sees its own orders only, and a clearing house
    DIRECTORY/desks.jsonl    what they subscribe to
    DIRECTORY/desks.toml     a pipeline over the same events

What leaves a desk for the clearing house is in dollars; within the desk, orders are in its own currency.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from fairlead.model import Notification
from fairlead.scopes import Scopes
from fairlead.spark.frames import KEY, RECORD, decode

if TYPE_CHECKING:
    from fairlead.spark.running import Pipeline

__all__ = ["SUBSCRIBERS", "Border", "border_crossed", "write_desks"]

SCOPES: Final = """\
-- Two desks: each sees its own orders only. Nothing comes in, and only orders go out, with their limit in dollars.

DEFINE SCOPE Clearing AS ALL FROM Frankfurt, Tokyo, clearing

DEFINE SCOPE Frankfurt AS ALL FROM XETR, desk-frankfurt
  INTERFACES INPUT(0), OUTPUT(Order)
  MAP OUTWARD { usd = limit * 1.08, DROP limit }

DEFINE SCOPE Tokyo AS ALL FROM XTKS, desk-tokyo
  INTERFACES INPUT(0), OUTPUT(Order)
  MAP OUTWARD { usd = limit * 0.0064, DROP limit }
"""
SUBSCRIBERS: Final = ("clearing", "desk-frankfurt", "desk-tokyo")
PIPELINE: Final = """\
# The same day, for two desks and a clearing house. Try it with:  fairlead run desks.toml

name = "Two desks"
output = "out-desks"

[events]
path = "events"
format = "json"

[subscriptions]
path = "desks.jsonl"

[scopes]
path = "desks.scopes"

[order]
lateness = "5s"
"""


def write_desks(directory: Path) -> Path:
    """Write the graph, the subscriptions and the pipeline beside the events of a sample; the pipeline."""
    (directory / "desks.scopes").write_text(SCOPES, encoding="utf-8", newline="\n")
    asked = [{"id": f"orders-{name}", "subscriber": name, "filter": "type is Order"} for name in SUBSCRIBERS]
    lines = "".join(f"{json.dumps(each)}\n" for each in asked)
    (directory / "desks.jsonl").write_text(lines, encoding="utf-8", newline="\n")
    pipeline = directory / "desks.toml"
    pipeline.write_text(PIPELINE, encoding="utf-8", newline="\n")
    return pipeline


@dataclass(frozen=True, slots=True)
class Border:
    """The number of orders of each subscriber; and an order as it was published, and as it was delivered
    outside.
    """

    counts: dict[str, int]
    published: Notification | None = None
    outside: Notification | None = None

    def explained(self, directory: Path, to: str) -> list[str]:
        """Why a component sees the order, or what stops it."""
        assert self.published is not None
        scopes = Scopes.read(directory / "desks.scopes")
        return list(scopes.explain(self.published, to=to).lines())


def border_crossed(pipeline: Pipeline) -> Border:
    """The outcome of the orders, read from the deliveries of a run."""
    deliveries = pipeline.output.read(pipeline.spark)
    if deliveries is None:
        return Border({})
    counts = {row["subscriber"]: row["count"] for row in deliveries.groupBy("subscriber").count().collect()}
    inside = deliveries.where(F.col("subscriber") == "desk-frankfurt").orderBy(*KEY).first()
    if inside is None:
        return Border(counts)
    same = (F.col("id") == inside["id"]) & (F.col("producer") == inside["producer"])
    outside = deliveries.where(same & (F.col("subscriber") == "clearing")).first()
    return Border(counts, _notification(inside), None if outside is None else _notification(outside))


def _notification(row: Any) -> Notification:
    return decode(row[RECORD], row["producer"], row["id"], None, row["sequence"])
