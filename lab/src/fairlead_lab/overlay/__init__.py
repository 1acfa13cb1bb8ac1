"""Overlays that look after themselves.

pastry       a ring of nodes where every key has a responsible node, with nodes joining, leaving and failing
rendezvous   a dissemination tree for each type, over the ring
"""

from fairlead_lab.overlay.pastry import Message, NodeId, PastryNode, Ring, Space
from fairlead_lab.overlay.rendezvous import Trees, parent, rendezvous_key

__all__ = ["Message", "NodeId", "PastryNode", "Ring", "Space", "Trees", "parent", "rendezvous_key"]
