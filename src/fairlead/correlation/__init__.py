"""Correlation: what several notifications mean together.

fair    fair subscriptions: whoever asks the same question gets the same answers in the same order
"""

from fairlead.correlation import fair

__all__ = ["fair"]
