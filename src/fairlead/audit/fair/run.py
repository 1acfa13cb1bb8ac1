"""A run of fair correlation, as the audit reads it: subscriptions, multicasts, deliveries, crashes.

Steps are in the order of time; of those at the same time, in the order of the list. A process is named by a
string and subscribes at most once, with one disjunction (FAIDECS 4.1); events are distinguished by their identity.

    Subscribed     a process subscribes; its deliveries begin once it is established
    Established    it is: no event that is multicast from here on is missed; without this step, at once
    Unsubscribed   it ends its subscription, and delivers nothing afterwards
    Multicast      a process multicasts an event
    Delivered      a process delivers a relation for one conjunction of its subscription
    Crashed        a process stops and does not recover (FAIDECS 3): it is faulty, the others are correct

A run is finished iff it is at rest: nothing is in flight, and all required deliveries have been made. Only then do
liveness properties (validity, agreement) have a verdict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from fairlead.correlation.fair import Conjunction, Subscription
from fairlead.model import Notification

__all__ = [
    "Crashed",
    "Delivered",
    "Established",
    "FairRun",
    "Multicast",
    "Step",
    "Subscribed",
    "Unsubscribed",
]


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A process subscribes."""

    process: str
    subscription: Subscription
    time: float


@dataclass(frozen=True, slots=True)
class Established:
    """A process's subscription has taken effect, and the state that it copied, if any, is in place."""

    process: str
    time: float


@dataclass(frozen=True, slots=True)
class Unsubscribed:
    """A process ends its subscription."""

    process: str
    time: float


@dataclass(frozen=True, slots=True)
class Multicast:
    """MULTICAST(e): a process gives an event to the system."""

    process: str
    event: Notification
    time: float


@dataclass(frozen=True, slots=True)
class Delivered:
    """DELIVER_Φ([e1, …, en]): a process is given a relation for a conjunction of its subscription."""

    process: str
    conjunction: Conjunction
    relation: tuple[Notification, ...]
    time: float


@dataclass(frozen=True, slots=True)
class Crashed:
    """A process stops for good."""

    process: str
    time: float


Step: TypeAlias = Subscribed | Established | Unsubscribed | Multicast | Delivered | Crashed


@dataclass(frozen=True, slots=True)
class FairRun:
    """The steps at the interface, in order, and whether the run is at rest."""

    steps: tuple[Step, ...]
    finished: bool
