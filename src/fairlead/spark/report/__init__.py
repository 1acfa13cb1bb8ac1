"""What a run did, as one HTML file that needs nothing else.

data     the plain values that a report is made from
gather   these values from a finished run's tables, in four Spark jobs, none of which returns much
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
from fairlead.spark.report.gather import gather
from fairlead.spark.report.page import render, write

__all__ = [
    "Facts",
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
