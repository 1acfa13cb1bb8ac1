"""Fair correlation as a distributed system (FAIDECS 5): processes as state machines, a message in, effects out.

directory   PROCESS: who plays which role, by the hash of its types
messages    what processes tell each other
client      multicasts, subscribes, and correlates what has been put in order
node        a process that plays roles
replica     a log that a majority knows before anybody acts on it; views
merger      a leader gives the order: mergers, sequencers
token       the holder of the token gives the order
desk        who gets what of an order; joining with a copied state

**Law.** What a role has put in order is its established order. A client delivers for a conjunction what
`correlation.fair` delivers when it is fed with that order, from where the client or the one whose state it
copied began; and relations of different conjunctions come in the order of the times of their roles. This holds
as long as of each role a majority of replicas lives. Who crashes has delivered nothing else before.

**What is promised on extensions.** A conjunction over the types T1 … Tk and one over T1 … Tk, Tk+1 … agree,
because the longer role merges the shorter one with others and leaves its order as it is (FAIDECS, Figure 2).
Types that are added elsewhere than at the end make for another role with an order of its own; only a total
order broadcast gives all types one order.
"""

from fairlead_lab.broker.fair.client import Client
from fairlead_lab.broker.fair.directory import ALL, Directory, Ordering, Role
from fairlead_lab.broker.fair.node import INTERVAL_US, Node

__all__ = ["ALL", "INTERVAL_US", "Client", "Directory", "Node", "Ordering", "Role"]
