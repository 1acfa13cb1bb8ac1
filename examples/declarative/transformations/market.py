"""Quotes, who asked for which of them, and how often; and what a pattern finds in them.

Fairlead's stages ask Spark for the columns of what they are given, which the functions of datasets may not (Spark
4.1 and later). So a stage stands beside the function, which returns what it made.
"""

import json
from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fairlead.spark import detect, match, pairs

spark = SparkSession.active()
here = Path(__file__).parents[1]
columns = "id string, producer string, time timestamp, symbol string, price double"
subscriptions = [json.loads(line) for line in (here / "subscriptions.jsonl").read_text().splitlines()]
patterns = [{"id": "jump", "pattern": "[price < 90] as low followed by [price > 100] as high within 10 s"}]

new_quotes = spark.readStream.schema(columns).json(str(here / "quotes"))
matched = pairs(match(new_quotes, subscriptions, payload=True))
found = detect(spark.read.schema(columns).json(str(here / "quotes")), patterns)


@dp.table
def alerts() -> DataFrame:
    """One row for each quote and subscription that matches: each run takes the quotes that are new."""
    return matched


@dp.materialized_view
def by_subscription() -> DataFrame:
    """How often each subscription matched."""
    return spark.read.table("alerts").groupBy("subscription").agg(F.count("*").alias("alerts"))


@dp.materialized_view
def jumps() -> DataFrame:
    """The composite events in all quotes."""
    return found.select("time", "interval", "constituents")
