"""Brokers that only the simulator drives.

rendezvous  a broker with a tree for every type, for overlays that are rings
detection   detectors of composite events that move between brokers
fair        processes that establish the order of fair correlation
"""

from typing import TypeAlias

from fairlead.broker import Broker
from fairlead_lab.broker.rendezvous import RendezvousBroker, RendezvousSettings

__all__ = ["AnyBroker", "RendezvousBroker", "RendezvousSettings"]

AnyBroker: TypeAlias = Broker | RendezvousBroker
"""What a simulation drives."""
