"""Does a run satisfy the specification? Programs that check a trace and prove each violation.

trace            the events of a run, one per line, the same from every runtime
history          a trace, indexed
specifications   the specifications as efficient programs (`audit`), with `orders`
report           verdicts, and the events that prove each violation
fair             the properties of fair correlation, over runs of their own
"""

from fairlead.audit.history import History, TraceRefused
from fairlead.audit.report import Finding, Report, Violation
from fairlead.audit.specifications import SPECIFICATIONS, audit
from fairlead.audit.trace import (
    Advertised,
    Ended,
    Event,
    Faulted,
    Language,
    Notified,
    Published,
    Ready,
    ScopeChanged,
    Subscribed,
    TopologyChanged,
    Unadvertised,
    Unsubscribed,
    format_event,
    read,
)
from fairlead.audit.verdict import Verdict

__all__ = [
    "SPECIFICATIONS",
    "Advertised",
    "Ended",
    "Event",
    "Faulted",
    "Finding",
    "History",
    "Language",
    "Notified",
    "Published",
    "Ready",
    "Report",
    "ScopeChanged",
    "Subscribed",
    "TopologyChanged",
    "TraceRefused",
    "Unadvertised",
    "Unsubscribed",
    "Verdict",
    "Violation",
    "audit",
    "format_event",
    "read",
]
