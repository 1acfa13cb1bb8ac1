"""The stages alone, in a PySpark job of your own: a DataFrame in, a DataFrame of deliveries out.

ada    2026-03-02T09:00:01Z  IBM 101.5  through dear
ada    2026-03-02T09:00:03Z  SAP 140.0  through dear, sap
bruno  2026-03-02T09:00:02Z  SUN 77.0   through cheap
1 of 5 rows was a duplicate
composite from 2026-03-02T09:00:02Z to 2026-03-02T09:00:03Z: low 2, high 3
"""

from pyspark.sql import functions as F

from fairlead import Instant
from fairlead.spark import deliver, detect, ingest, match, notifications, order, session

spark = session(master="local[1]")
quotes = spark.createDataFrame(
    [
        ("3", "xetra", "2026-03-02T09:00:03Z", "SAP", 140.0),
        ("1", "nyse", "2026-03-02T09:00:01Z", "IBM", 101.5),
        ("2", "nyse", "2026-03-02T09:00:02Z", "SUN", 77.0),
        ("1", "nyse", "2026-03-02T09:00:01Z", "IBM", 101.5),
        ("4", "nyse", "2026-03-02T09:00:04Z", "FOO", 95.0),
    ],
    "id string, producer string, time string, symbol string, price double",
).withColumn("time", F.to_timestamp("time"))
subscriptions = [
    {"id": "dear", "subscriber": "ada", "filter": "price > 100"},
    {"id": "sap", "subscriber": "ada", "filter": 'symbol = "SAP"'},
    {"id": "cheap", "subscriber": "bruno", "filter": "price < 90"},
]

rows = ingest(quotes)
ordered = order(notifications(rows)).persist()
deliveries = deliver(match(ordered.released, subscriptions, payload=True), buckets=1, tasks=1)

# One bucket in one task is one partition, in which every subscriber's deliveries stand in the total order.
for row in deliveries.toLocalIterator():
    quote = f"{row.attributes.symbol} {row.attributes.price}"
    print(f"{row.subscriber:5}  {Instant(row.time)}  {quote:9}  through {', '.join(row.subscriptions)}")
print(f"{ordered.duplicates.count()} of {rows.count()} rows was a duplicate")

pattern = "[price < 90] as low followed by [price > 100] as high within 10 s"
for row in detect(ordered.released, [{"id": "jump", "pattern": pattern}]).toLocalIterator():
    start, end = Instant(row.interval.start), Instant(row.interval.end)
    taken = ", ".join(f"{each.step} {each.id}" for each in row.constituents)
    print(f"{row.type} from {start} to {end}: {taken}")
spark.stop()
