"""Deliveries into a table that has transactions of its own, each once: the transaction holds the batch's number.

    delta       Delta Lake keeps the number under the output's name, and leaves a repeated one out (`txnAppId`)
    iceberg     a batch is staged under a name and then published; a name is published once (write-audit-publish)
    postgres    see `fairlead.spark.postgres`

A batch that is repeated after `kill -9`, or that another process writes at the same time, is there once: the table
decides it, in the commit that would show the rows. Rows are appended, so others may write to the same table,
and those who read it as a stream see every batch.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from fairlead.spark.output import Output

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from fairlead.spark.config import Deliveries

__all__ = ["DELTA", "ICEBERG", "TABLES", "append"]

DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
NOTE: Final = "transactions"
STAGED: Final = "spark.wap.id"
STAGES: Final = "write.wap.enabled"
PUBLISHED_ALREADY: Final = re.compile(r"DuplicateWAPCommitException")


def append(deliveries: DataFrame, number: int, sink: Deliveries, output: Output) -> None:
    """Append the deliveries of a batch to a table, unless they are there."""
    TABLES[sink.format](deliveries.withColumn("batch", F.lit(number)), number, sink, output.identity(NOTE))


def _into_delta(rows: DataFrame, number: int, sink: Deliveries, name: str) -> None:
    writer = rows.write.format(DELTA).mode("append").options(**sink.options)
    writer = writer.option("txnAppId", name).option("txnVersion", str(number))
    if sink.table is not None:
        writer.saveAsTable(sink.table)
    else:
        writer.save()


def _into_iceberg(rows: DataFrame, number: int, sink: Deliveries, name: str) -> None:
    spark, table, stage = rows.sparkSession, sink.table, f"{name}-{number}"
    assert table is not None
    _let_stage(spark, rows, table, sink.options)
    snapshots = spark.table(f"{table}.snapshots")
    known = F.lit(stage).isin(F.col("summary")["wap.id"], F.col("summary")["published-wap-id"])
    if snapshots.where(known).isEmpty():  # an attempt that was killed may have staged it
        spark.conf.set(STAGED, stage)
        try:
            rows.writeTo(table).options(**sink.options).append()
        finally:
            spark.conf.unset(STAGED)
    catalog, found, within = table.partition(".")
    if "." not in within or not found:
        catalog, within = spark.catalog.currentCatalog(), table
    try:
        spark.sql(f"CALL {catalog}.system.publish_changes('{within}', '{stage}')").collect()
    except Exception as error:  # its class is py4j's, or Connect's
        if not PUBLISHED_ALREADY.search(str(error)):
            raise


def _let_stage(spark: SparkSession, rows: DataFrame, table: str, options: Mapping[str, str]) -> None:
    """Make the table where there is none; let writers stage batches in it."""
    if not spark.catalog.tableExists(table):
        empty = rows.limit(0).writeTo(table).using(ICEBERG).options(**options)
        empty.tableProperty(STAGES, "true").create()
        return
    [answer] = spark.sql(f"SHOW TBLPROPERTIES {table} ('{STAGES}')").collect()
    if answer["value"] != "true":
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{STAGES}' = 'true')")


TABLES: Final[Mapping[str, Callable[[DataFrame, int, Deliveries, str], None]]] = {
    DELTA: _into_delta,
    ICEBERG: _into_iceberg,
}
"""Tables with transactions that hold the number of a batch."""
