"""Ingest: bytes in, a notification or a rejection out, never an exception.

records      one JSON object: a flat record or a CloudEvents 1.0 event
jsonlines    a stream of lines, each with a JSON object
xml          one XML document
csv          a stream of lines of separated values under a header
text         a stream of lines, each a notification by itself
rows         one row of typed columns, as tables hold them
times        how times are written: in which form, in which unit
formats      which format a file has, by its first bytes and its name
"""

from fairlead.ingest.records import Fields
from fairlead.ingest.rejection import Rejection
from fairlead.ingest.times import Times

__all__ = ["Fields", "Rejection", "Times"]
