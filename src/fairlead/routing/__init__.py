"""Routing between brokers: which broker must know which filter, so that notifications reach their subscribers.

listing          filters that list numbers, as bits
interest         a filter as brokers exchange it
catalogue        all filters of a broker, or of many brokers in one process, and how they relate
table            the routing table, and the sets that define the algorithms
strategy         the interface of an algorithm
basic            flooding, simple, identity-based
covering         covering-based
merging          merging-based, perfect and imperfect
named            these, by name
advertisements   which subscriptions overlap an advertisement
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
