"""The live network: brokers linked by sockets, the clients that connect to them, and a log that loses nothing.

The law: a publication that was acknowledged after a durable subscription was is delivered to that subscriber,
once and in its producer's order, whatever was killed, paused or cut off in between, as long as all logs stay
readable and all brokers and links come back.

    wire       the frames: what travels
    ledger     what a broker remembers over restarts, all of it in its log
    outbox     what one destination still has to get from the log
    sessions   connections of clients and neighbours that are known by name; `inflow` has their states
    destinations  neighbours and durable subscribers, which outlive connections; `outflow` has their states
    node       the broker with its sessions, without sockets: bytes in, bytes out; its docstring has its parts
    addresses  where brokers are
    settings   what a broker is run with, and its file
    overlay    the file of a whole network
    server     sockets, timers, the disk: drives a node
    files      how many connections the system has room for
    running    a broker as a process
    client     the asynchronous client; its docstring has its parts
    detection  patterns and fair subscriptions, where they are asked
    sync       the client for code without an event loop
    survey     a look at a whole network; `drawing` draws it

How nothing is lost:

- A notification goes on its way when it is safe in the log of the broker where it is. The publisher is
  acknowledged then, and so is the neighbour that relayed it; until it hears so, each sends it again.
- What a neighbour or a durable subscriber still has to get is not kept in memory: it is a place in the log, its
  cursor, and the question whether a record from there on concerns it. Who has caught up gets notifications
  as they come; who has not, by reading on from its place.
- What neighbours have asked for is in the log, too. When a link comes back, both sides say all they ask of
  the other, and what has changed takes effect as a whole: at no time does a broker know less than it must.
- A durable subscription is acknowledged after a barrier: a wave over all links that comes back when every
  broker has made safe what came before it.
- Places grow along every link, and a receiver remembers the last one it made safe: what comes twice is known.

What is published without asking for an answer is not logged, and goes at once, to whoever can be reached now.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fairlead.network import sync
    from fairlead.network.addresses import Address, Tls
    from fairlead.network.client import Client, Delivery, Linking, Subscription, connect
    from fairlead.network.detection import Detection
    from fairlead.network.overlay import Overlay, read_overlay
    from fairlead.network.settings import BrokerSettings, Limits, read_settings

__all__ = [
    "Address",
    "BrokerSettings",
    "Client",
    "Delivery",
    "Detection",
    "Limits",
    "Linking",
    "Overlay",
    "Subscription",
    "Tls",
    "connect",
    "read_overlay",
    "read_settings",
    "sync",
]

_HOMES: Final = {
    "addresses": ("Address", "Tls"),
    "client": ("Client", "Delivery", "Linking", "Subscription", "connect"),
    "detection": ("Detection",),
    "overlay": ("Overlay", "read_overlay"),
    "settings": ("BrokerSettings", "Limits", "read_settings"),
}
_HOME: Final = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name, loaded when it is first used (PEP 562): a client need not load what a broker needs."""
    if name == "sync":
        return import_module(f"{__name__}.sync")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
