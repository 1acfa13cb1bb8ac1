"""The broker as a state machine: a message in, effects out.

messages      what a broker is told, and what it answers
broker        the broker
publications  log, sync, then send: the life of a publication
published     the identities of publications
clients       its local clients
history       no duplicates in cyclic overlays
"""

from fairlead.broker.broker import Broker, Settings

__all__ = ["Broker", "Settings"]
