"""The seam of every notification: three pure questions, which the bus, the simulator and the nodes put to one
object.

    admit(who, notification, now)   may this client publish this? The notification as admitted, or a refusal
    route(notification, source)     where does it go? To neighbours, and to clients with their subscriptions
    grant(who, action, filter, now) what does this client get of a filter that it requests? A part, or a refusal

A `Seam` has a routing function (the tables of a broker, the subscriptions of a bus) and rules. A `Rule` may refuse
a publication and may narrow a route; it never widens one. A driver adds no rule of its own: what holds on
the bus holds at brokers. Spark has no seam: advertisements, the access policy and scopes have a columnar form
there (`fairlead.spark.admission`, `access`, `scoping`), compared with the seam's answers.

The laws:

- All questions are pure: they change nothing, and the same question has the same answer until the seam's version
  changes. To remember an identity is a step of the publication (`Seam.take`), not of the question.
- A rule declares what its answers depend on (`Depends`). What is remembered is remembered under exactly that
  (`Seam.keys`), so a remembered answer is the answer.
- A fast path is an optimisation of the seam: it is taken where `Seam.is_plain_enough`, and gives the same verdicts
  and the same effects.

    rule            Rule, Depends, Refusal, Route
    seam            the seam, and the keys of what is remembered
    cells           which values of attributes filters tell apart
    memory          remembered answers
    advertisements  the rule of advertisements (book 2.5.4)
    channeling      the rule of channels: `from fairlead.rules.channeling import Channeling`
    ahead           the rule of the future: `from fairlead.rules.ahead import Ahead`
    access          the rule of the access policy (book 8.1): `from fairlead.rules.access import Access`
    quota           how much a principal publishes in a second: `from fairlead.rules.quota import Quota`
    hooks           the rules of interceptors: `from fairlead.rules.hooks import Hooks`
    domains         the rule of the schema: `from fairlead.rules.domains import Domains`
    scoping         the rule of scopes (book 6): `from fairlead.rules.scoping import Scoping`
    integrated      scopes at brokers, with routing tables for each scope (book 6.7.4)

A new rule is a module here, and an argument where the seam is made: `Broker(rules=…)`, `Bus(rules=…)`.
"""

from fairlead.rules.advertisements import Advertisements
from fairlead.rules.cells import Cells, is_plain
from fairlead.rules.memory import Memory
from fairlead.rules.rule import Depends, Form, Refusal, Route, Rule
from fairlead.rules.seam import Seam

__all__ = [
    "Advertisements",
    "Cells",
    "Depends",
    "Form",
    "Memory",
    "Refusal",
    "Route",
    "Rule",
    "Seam",
    "is_plain",
]
