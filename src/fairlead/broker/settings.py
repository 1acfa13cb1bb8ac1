"""The settings of a broker: how filters and notifications travel through it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fairlead.filters.filter import Filter
from fairlead.routing import Strategy

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a broker. Settings that all brokers of a network must share are checked where the network
    is built."""

    strategy: Strategy
    advertisements: Strategy | None = None
    """The strategy for advertisements; None where there are none."""
    parent: str | None = None
    """The broker above this one, in a hierarchy."""
    children: frozenset[str] = frozenset()
    """The brokers below this one, in a hierarchy: they are not told of filters."""
    grows: bool = False
    """Whether whoever turns up is below this one: a tree that makes itself (book 4.6.3)."""
    climbs: bool = True
    """Whether the parent gets every notification. It need not, where it passes on subscriptions to those who
    advertise to it."""
    widen: Callable[[Filter], Filter] | None = None
    """The filter that other brokers get for a client's, where that is wider than what the client asks for."""
    cyclic: bool = False
    """Whether there may be several ways between two brokers."""
    redundant: bool = False
    """The same, where notifications take all of them, and nothing is to be done when one is lost."""
    in_order: bool = True
    """Whether what one producer publishes arrives in its order also where there are several trees: then the next
    one waits until the one before is under way nowhere any more."""
    batch_us: int = 0
    """The time that messages to a neighbour may wait for others, to go as one."""
    durable: bool = False
    """Whether a publication goes to the log before it goes anywhere else."""
    lasting: bool = False
    """Whether a neighbour's subscription stays for a while when what was advertised for it is withdrawn: where
    publications may wait for the neighbour, those who published them may have gone before it gets them. The driver
    of the broker removes it when nothing waits (`unserved`)."""
