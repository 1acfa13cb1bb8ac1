"""The broker as a state machine: a message in, effects out.

messages    what a broker is told, and what it answers
broker      the broker
rendezvous  a broker with a tree for every type, for overlays that are rings
clients     its local clients
history     no duplicates in cyclic overlays
"""

from typing import TypeAlias

from fairlead.broker.broker import Broker, Settings
from fairlead.broker.rendezvous import RendezvousBroker, RendezvousSettings

__all__ = ["AnyBroker", "Broker", "RendezvousBroker", "RendezvousSettings", "Settings"]

AnyBroker: TypeAlias = Broker | RendezvousBroker
"""What a simulation or a server drives."""
