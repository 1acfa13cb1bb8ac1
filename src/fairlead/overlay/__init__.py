"""Which brokers are linked, and how an overlay looks after itself.

topology     brokers and links as a plain graph: lines, stars, trees, cycles
pastry       a ring of nodes where every key has a responsible node, with nodes joining, leaving and failing
rendezvous   a dissemination tree for each type, over the ring
"""

from fairlead.overlay.pastry import Message, NodeId, PastryNode, Ring, Space
from fairlead.overlay.rendezvous import Trees, parent, rendezvous_key
from fairlead.overlay.topology import SHAPES, Link, Topology, topology

__all__ = [
    "SHAPES",
    "Link",
    "Message",
    "NodeId",
    "PastryNode",
    "Ring",
    "Space",
    "Topology",
    "Trees",
    "parent",
    "rendezvous_key",
    "topology",
]
