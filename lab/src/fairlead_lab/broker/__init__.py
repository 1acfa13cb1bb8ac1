"""Brokers that only the simulator drives.

packets     messages with a header, and sends to multicast groups
rendezvous  a broker with a tree for every type, for overlays that are rings
detection   detectors of composite events that move between brokers
fair        processes that establish the order of fair correlation
"""

from typing import TypeAlias

from fairlead.broker import Broker
from fairlead_lab.broker.packets import Packet, SendToGroup
from fairlead_lab.broker.rendezvous import RendezvousBroker, RendezvousSettings

__all__ = ["AnyBroker", "Packet", "RendezvousBroker", "RendezvousSettings", "SendToGroup"]

AnyBroker: TypeAlias = Broker | RendezvousBroker
"""What a simulation drives."""
