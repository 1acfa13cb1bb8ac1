"""The floor: the Spark program that one would write by hand to deliver rows, without knowing to whom.

It reads JSON lines, parses them with `from_json`, drops duplicates by (producer, id), makes as many rows of each
notification as it has deliveries, and writes them with the line as payload, sorted by (bucket, subscriber, order
key), to Parquet in 16 buckets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SUBSCRIBERS", "floor"]

BUCKETS: Final = 16
SUBSCRIBERS: Final = 2_000


def floor(spark: SparkSession, lines: str, output: str, each: float) -> None:
    """The program itself; `each` is how many deliveries a notification has on average."""
    envelope = "id string, producer string, source string, time string, sequence bigint"
    read = spark.read.text(lines).select("value", F.from_json("value", envelope).alias("e"))
    time = F.coalesce(F.unix_micros(F.try_to_timestamp("e.time")), F.col("e.time").try_cast("bigint"))
    parsed = read.where("e.id is not null").select(
        F.col("value").alias("record"),
        F.coalesce("e.producer", "e.source", F.lit("")).alias("producer"),
        "e.id",
        time.alias("time"),
        "e.sequence",
    )
    once = parsed.dropDuplicates(["producer", "id"])
    chance = F.pmod(F.xxhash64("id"), F.lit(1000)) < round(1000 * (each % 1))
    count = F.lit(int(each)) + chance.cast("int")
    numbers = F.when(count > 0, F.sequence(F.lit(1), count)).otherwise(F.array().cast("array<int>"))
    receivers = F.transform(
        numbers, lambda number: F.concat(F.lit("u"), F.pmod(F.xxhash64("id", number), F.lit(SUBSCRIBERS)))
    )
    deliveries = once.select("*", F.explode(receivers).alias("subscriber"))
    bucket = F.pmod(F.crc32(F.encode("subscriber", "UTF-8")), F.lit(BUCKETS)).cast("int")
    order = ("bucket", "subscriber", "time", "producer", "sequence", "id")
    sorted_ = deliveries.withColumn("bucket", bucket).repartition("bucket").sortWithinPartitions(*order)
    sorted_.write.partitionBy("bucket").parquet(output)
