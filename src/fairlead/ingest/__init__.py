"""The door: bytes come in, a notification or a rejection comes out, and never an exception.

records      one JSON object: a flat record or a CloudEvents 1.0 event
jsonlines    a stream of lines, each with a JSON object
xml          one XML document
"""

from fairlead.ingest.records import Fields
from fairlead.ingest.rejection import Rejection

__all__ = ["Fields", "Rejection"]
