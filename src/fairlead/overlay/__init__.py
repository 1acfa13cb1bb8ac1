"""Overlays: the graph of brokers and links.

hierarchy    which brokers stand above which others
topology     brokers and links as a plain graph: lines, stars, trees, cycles
"""

from fairlead.overlay.hierarchy import Hierarchy, misplaced_roots
from fairlead.overlay.topology import SHAPES, Link, Topology, topology

__all__ = ["SHAPES", "Hierarchy", "Link", "Topology", "misplaced_roots", "topology"]
