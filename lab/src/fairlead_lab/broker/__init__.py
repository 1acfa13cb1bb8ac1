"""Brokers that only the simulator drives.

packets     messages with a header, and sends to multicast groups
spreading   brokers that send to multicast groups, along links in Bloom filters, or by gossip
rendezvous  a broker with a tree for every type, for overlays that are rings
ring        rendezvous brokers whose ring is kept by messages
leased      a broker whose state is leased, so that it recovers from any state; leases: periods and bounds
rebuilding  a broker that builds its routing tables anew, in turns
detection   detectors of composite events that move between brokers
fair        processes that establish the order of fair correlation
"""

from typing import TypeAlias

from fairlead.broker import Broker
from fairlead_lab.broker.leased import LeasedBroker
from fairlead_lab.broker.packets import Packet, SendToGroup
from fairlead_lab.broker.rebuilding import RebuildingBroker
from fairlead_lab.broker.rendezvous import RendezvousBroker, RendezvousSettings
from fairlead_lab.broker.spreading import SpreadingBroker

__all__ = [
    "AnyBroker",
    "LeasedBroker",
    "Packet",
    "RebuildingBroker",
    "RendezvousBroker",
    "RendezvousSettings",
    "SendToGroup",
    "SpreadingBroker",
    "brokers_within",
]

AnyBroker: TypeAlias = Broker | RebuildingBroker | RendezvousBroker | SpreadingBroker
"""The brokers that a simulation drives."""


def brokers_within(broker: AnyBroker) -> list[Broker]:
    """The brokers with clients and tables that a broker is made of: one for each tree, or itself."""
    if isinstance(broker, Broker):
        return [broker]
    if isinstance(broker, SpreadingBroker):
        return [broker.local]
    return [broker.tree(name) for name in broker.trees]
