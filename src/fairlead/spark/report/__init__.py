"""The report of a run, as one HTML file without references.

data     the plain values that a report is made from
examples a composite event, with its constituents
gather   these values from a finished run's tables, one Spark job each, none of which returns much
intervals of distributions
charts   pictures: the flow, steps over time, bars
page     the sections, in the order in which one asks; the console shows the same
"""

from __future__ import annotations

from fairlead.spark.report.data import (
    Facts,
    Judged,
    Matched,
    Never,
    Proof,
    Reason,
    Received,
    ReportData,
    Watermark,
)
from fairlead.spark.report.examples import CompositeExample, Constituent
from fairlead.spark.report.gather import gather
from fairlead.spark.report.page import content, render, style, summary, write

__all__ = [
    "CompositeExample",
    "Constituent",
    "Facts",
    "Judged",
    "Matched",
    "Never",
    "Proof",
    "Reason",
    "Received",
    "ReportData",
    "Watermark",
    "content",
    "gather",
    "render",
    "style",
    "summary",
    "write",
]
