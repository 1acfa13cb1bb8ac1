"""Routing that only the simulator drives.

cyclic       simple routing where there are several paths between two brokers
leased       any strategy with entries that have to be renewed
checked      any strategy, asserting its invariants
multicast    groups of brokers that one send reaches
epidemic     gossip among peers, without brokers
lipsin       the path of a notification as a Bloom filter over links
chance       chance that is a function of its arguments
"""

from fairlead_lab.routing.checked import checked
from fairlead_lab.routing.cyclic import CyclicSimple

__all__ = ["CyclicSimple", "checked"]
