"""Scopes: the visibility of notifications. One model for all runtimes (book, chapter 6).

A scope bundles components, limits what is visible, and has interfaces, mappings and policies at its border.
Producers and consumers stay as they are.

    Scopes                 a whole scope graph, from text, TOML or JSON: ask it, check it, hand it to a runtime
    ScopeGraph             the graph as a value: Scope, Component, Edge; a change makes another one
    ScopePlan              the graph prepared for evaluation: `reach` says who sees a notification
    Interface              what may come in and go out: base, selective, imposed; `effective` composes them
    EdgeMapping, Policy    what becomes of a notification at an edge; who of those that may get it gets it

Laws, each a test of the same words in `tests/scopes`:

- X sees Y's notifications, interfaces aside, iff some scope contains both at any depth.
- A notification goes up, then down, and meets no component twice; the laboratory writes every path out, and what
  `reach` says is what these paths say.
- A component sees each version of a notification once, whichever paths lead to it; it sees what it publishes.
- One scope for all is no scopes. Another edge takes nobody away; closing one adds nobody; policies add nobody.
- A mapping keeps identity and order. A filter pulled back over it matches what becomes a match.
- Policies are functions of what is eligible, the notification and a state: the same order gives the same choices.
- Parse of print is the identity.

How a runtime uses it. Visibility is computed for the graph and for those whose subscriptions match, not for each
component: matching comes first, and scopes take away from its result.

- **Bus**: `ScopePlan(graph).reach(n, matched, key=…, state=…)` in the step that routes a publication; `matched` is
  the engine's answer, asked once for each version. It keeps the returned states of policies, and makes a new plan
  when the graph changes.
- **Brokers**: the publisher's broker calls `ScopePlan.visible_in` (or `reach`) once and annotates the message
  with scopes; `Crossing.pull` brings a subscription over an edge, where routing covers and merges it.
- **Spark**: the graph's filters are matched as one engine over a batch; `Parent.outward` and `Parent.inward` of
  `ScopePlan.parents`, from the roots down, are the bitmaps to combine; the steps of mappings are columns.
"""

from fairlead.scopes.checking import Finding
from fairlead.scopes.explaining import SightExplanation
from fairlead.scopes.graph import DEFAULT, Component, Scope, ScopeGraph
from fairlead.scopes.interfaces import CLOSED, OPEN, Crossing, Edge, Interface, effective
from fairlead.scopes.language import parse_statements, print_statements
from fairlead.scopes.mappings import EdgeMapping
from fairlead.scopes.plan import ScopePlan
from fairlead.scopes.policies import Policy, Traverse
from fairlead.scopes.scopes import Scopes
from fairlead.scopes.sights import Failure, Reached, Sight
from fairlead.scopes.system import System

__all__ = [
    "CLOSED",
    "DEFAULT",
    "OPEN",
    "Component",
    "Crossing",
    "Edge",
    "EdgeMapping",
    "Failure",
    "Finding",
    "Interface",
    "Policy",
    "Reached",
    "Scope",
    "ScopeGraph",
    "ScopePlan",
    "Scopes",
    "Sight",
    "SightExplanation",
    "System",
    "Traverse",
    "effective",
    "parse_statements",
    "print_statements",
]
