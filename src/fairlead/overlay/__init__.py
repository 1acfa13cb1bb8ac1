"""Which brokers are linked.

topology     brokers and links as a plain graph: lines, stars, trees, cycles
"""

from fairlead.overlay.topology import SHAPES, Link, Topology, topology

__all__ = ["SHAPES", "Link", "Topology", "topology"]
