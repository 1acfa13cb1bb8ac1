"""Routing between brokers: who has to know of which filter, so that every notification finds its way.

listing          filters that list numbers, as bits
interest         a filter under way
catalogue        all filters of a broker, or of many brokers in one process, and how they relate
table            the routing table, with the sets that the algorithms are written in
strategy         what an algorithm is
basic            flooding, simple, identity-based
covering         covering-based
merging          merging-based, perfect and imperfect
named            these, by name
advertisements   which subscriptions an advertisement concerns
"""

from fairlead.routing.basic import Flooding, Identity, Simple
from fairlead.routing.catalogue import Catalogue, Matcher
from fairlead.routing.covering import Covering
from fairlead.routing.interest import ANYTHING, Interest
from fairlead.routing.merging import ImperfectMerging, Merging
from fairlead.routing.named import STRATEGIES
from fairlead.routing.strategy import Outcome, Strategy
from fairlead.routing.table import Entry, RoutingTable

__all__ = [
    "ANYTHING",
    "STRATEGIES",
    "Catalogue",
    "Covering",
    "Entry",
    "Flooding",
    "Identity",
    "ImperfectMerging",
    "Interest",
    "Matcher",
    "Merging",
    "Outcome",
    "RoutingTable",
    "Simple",
    "Strategy",
]
