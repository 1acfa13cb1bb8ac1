"""The desks of the demo: each sees its own orders only, and what leaves a desk is in dollars."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fairlead.cli.demo import _show_border
from fairlead.ingest import Rejection
from fairlead.ingest.records import read
from fairlead.model import ABSENT, number_of
from fairlead.spark.config import Config
from fairlead.spark.desks import border_crossed, write_desks
from fairlead.spark.sample import write_sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_each_desk_gets_its_own_orders_and_the_clearing_house_gets_them_in_dollars(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from fairlead.spark.running import Pipeline

    write_sample(tmp_path, events=1_500, subscriptions=3)
    orders = {"XETR": set(), "XTKS": set()}  # type: dict[str, set[str]]
    for file in sorted((tmp_path / "events").iterdir()):
        for line in file.read_bytes().splitlines():
            each = read(line)
            if not isinstance(each, Rejection) and each.get("type") == "Order" and each.producer in orders:
                orders[each.producer].add(each.id or "")
    pipeline = Pipeline(Config.read(write_desks(tmp_path)), spark)
    pipeline.run()
    border = border_crossed(pipeline)
    assert border.counts == {
        "clearing": len(orders["XETR"]) + len(orders["XTKS"]),
        "desk-frankfurt": len(orders["XETR"]),
        "desk-tokyo": len(orders["XTKS"]),
    }
    assert border.published is not None
    assert border.outside is not None
    assert border.outside.get("limit") is ABSENT
    limit, usd = number_of(border.published.get("limit")), number_of(border.outside.get("usd"))
    assert usd == pytest.approx(limit * number_of(Decimal("1.08")))
    _show_border(border, tmp_path)
    shown = capsys.readouterr().out
    assert "desk-tokyo does not see it" in shown
    assert "usd" in shown
