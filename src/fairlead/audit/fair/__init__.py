"""Checks of fair correlation: do processes with identical interests reach identical outcomes (FAIDECS 4.3, 4.4)?

run        the steps: subscriptions, multicasts, deliveries, crashes
files      a run as JSON lines
history    a run, indexed
judging    the properties as programs (`audit_fair`), with `validity`
"""

from fairlead.audit.fair.judging import PROPERTIES, audit_fair
from fairlead.audit.fair.run import (
    Crashed,
    Delivered,
    Established,
    FairRun,
    Multicast,
    Step,
    Subscribed,
    Unsubscribed,
)

__all__ = [
    "PROPERTIES",
    "Crashed",
    "Delivered",
    "Established",
    "FairRun",
    "Multicast",
    "Step",
    "Subscribed",
    "Unsubscribed",
    "audit_fair",
]
