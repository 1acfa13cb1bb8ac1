"""Kafka: its records as notifications, schemas of a registry, and transactions.

    schemas    values in a registry's wire format: Avro and Protobuf
    records    a record as a notification: value, key, headers, topic and offset, tombstones
    writing    transactions that hold the position of what they write, so that nothing is written twice

The pipeline on Spark reads with Spark's connector and writes with `writing`; see docs/connectors.md.
"""

from __future__ import annotations

from fairlead.kafka.records import PLAIN, Reading, Taken, Tombstones
from fairlead.kafka.schemas import Encoding, Registry

__all__ = ["PLAIN", "Encoding", "Reading", "Registry", "Taken", "Tombstones"]
