"""What a run did, as one HTML file that needs nothing else.

data     the plain values that a report is made from
found    a composite event, with what it is made of
gather   these values from a finished run's tables, one Spark job each, none of which returns much
charts   pictures: the flow, steps over time, bars
page     the sections, in the order in which one asks
"""

from __future__ import annotations

from fairlead.spark.report.data import (
    Facts,
    Judged,
    Matched,
    Never,
    Reason,
    Received,
    ReportData,
)
from fairlead.spark.report.found import Constituent, Found
from fairlead.spark.report.gather import gather
from fairlead.spark.report.page import render, write

__all__ = [
    "Constituent",
    "Facts",
    "Found",
    "Judged",
    "Matched",
    "Never",
    "Reason",
    "Received",
    "ReportData",
    "gather",
    "render",
    "write",
]
