"""Correlation: what several notifications mean together.

fair        fair subscriptions: whoever asks the same question gets the same answers in the same order
patterns    composite events: sequences, iterations, absences, in event time
relating    fair subscriptions in a total order, and their relations among the composites of patterns
standing    both over one order, with validity: what a runtime asks
reading     reading a language with filters in it: both have one
"""

from fairlead.correlation import fair, patterns

__all__ = ["fair", "patterns"]
