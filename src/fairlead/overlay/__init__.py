"""Overlays: the graph of brokers and links.

topology     brokers and links as a plain graph: lines, stars, trees, cycles
"""

from fairlead.overlay.topology import SHAPES, Link, Topology, topology

__all__ = ["SHAPES", "Link", "Topology", "topology"]
