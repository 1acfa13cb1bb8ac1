"""Conditions: what a subscriber gets of the notifications that match its filter (book 5.3).

A filter judges one notification alone, so that covering, merging and routing are exact. A condition stands beside
the filter in a subscription, and judges a notification by those before it:

    celsius changes                         another value than the last one delivered
    celsius changes by 1                    |v - last| >= 1
    celsius changes by 5%                   |v - last| >= 5% of |last|; behind a 0, any other value
    celsius mean changes by 1 over 20       the same, of the mean of the last 20 values
    celsius deviates by 3 over 20           |v - mean| >= 3 deviations of the 20 values before it
    at most 1 per 10 s                      in event time
    every 10th                              the first, the eleventh, …
    …, per room, producer                   a stream for each key; without it, one for each producer
    … or after 60 s                         or so long, in event time, after the last one delivered

Laws:

    A condition is a function from the notifications that a subscription would get without it, in their order, to
    a subsequence of them.
    The last value is the last one *delivered*: small steps cannot add up, and what a subscriber knows differs
    from what is by less than the bound.
    The first notification of a key is delivered. One without the value, with one of another kind, or with NaN is
    not, and changes nothing.
    Arithmetic is exact: a change of exactly the bound is delivered.
    A condition that is printed and parsed is the same.

`Condition.begin` begins a stream: a `Suppression`, which is asked about each notification once, in order. Where
deliveries come again until they are accepted, `Passing` asks it once.
"""

from __future__ import annotations

from fairlead.conditions.condition import (
    AtMost,
    Changes,
    Condition,
    Deviates,
    Every,
    Suppression,
    changes,
    deviates,
)
from fairlead.conditions.language import condition_of, parse
from fairlead.conditions.passing import Passing

__all__ = [
    "AtMost",
    "Changes",
    "Condition",
    "Deviates",
    "Every",
    "Passing",
    "Suppression",
    "changes",
    "condition_of",
    "deviates",
    "parse",
]
