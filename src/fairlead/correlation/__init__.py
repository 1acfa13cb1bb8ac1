"""Correlation: what several notifications mean together.

fair         fair subscriptions: equal subscriptions deliver equal relations in the same order
patterns     composite events: sequences, iterations, absences, in event time
occurrences  notifications with their interval and their rank in the total order
kernel       the protocol of both engines: queries, occurrences, composites, snapshots, late occurrences
relating     fair subscriptions as a kernel, and their relations among the composites of patterns
standing     patterns and fair subscriptions over one order, with validity: what a runtime drives
reading      reading a language with filters in it: both have one
"""

from fairlead.correlation import fair, patterns

__all__ = ["fair", "patterns"]
