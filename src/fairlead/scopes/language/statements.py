"""The statements of the scope graph language, as values (book 6.6.3).

    Define    a scope, an abstract scope or a component is described
    Deploy    a described scope becomes a node of the running graph
    Alter     selections and features are added, taken away or replaced
    DropScope, Join, Leave

A statement says what its text says, and nothing of what it will mean: `fairlead.scopes.system` resolves it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from fairlead.filters import EVERYTHING, Filter
from fairlead.model import Instant
from fairlead.scopes.mappings import Steps
from fairlead.scopes.policies import Direction, Policy, Traverse

__all__ = [
    "STAR",
    "Action",
    "Alter",
    "Between",
    "Border",
    "Change",
    "Create",
    "Define",
    "Deploy",
    "DropScope",
    "Event",
    "Every",
    "Features",
    "Join",
    "Leave",
    "Properties",
    "Qualifier",
    "Ranked",
    "Reference",
    "Rule",
    "Selection",
    "Source",
    "Statement",
]


@dataclass(frozen=True, slots=True)
class Source:
    """The source of components: a name, the members of a scope (`depth` times), or `*`."""

    name: str
    depth: int = 0


STAR = Source("*")


@dataclass(frozen=True, slots=True)
class Every:
    """ALL."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """TOP(attribute, k) or BOTTOM(attribute, k)."""

    attribute: str
    count: int
    largest: bool = True


@dataclass(frozen=True, slots=True)
class Between:
    """[n..m]: at least n, and the first m by name."""

    least: int | None = None
    most: int | None = None


Qualifier: TypeAlias = Every | Ranked | Between


@dataclass(frozen=True, slots=True)
class Border:
    """INTERFACES INPUT(…), OUTPUT(…): None for a direction that is not mentioned."""

    input: Filter | None = None
    output: Filter | None = None


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties of a selection's edges: an interface, mappings, policies among the selected."""

    border: Border = Border()
    outward: Steps | None = None
    inward: Steps | None = None
    policies: tuple[tuple[Direction, Policy], ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """Components that are to be members, or scopes that are to be superscopes."""

    sources: tuple[Source, ...]
    superscopes: bool = False
    qualifier: Qualifier = Every()
    where: Filter = EVERYTHING
    ident: str | None = None
    properties: Properties = Properties()


@dataclass(frozen=True, slots=True)
class Reference:
    """The value of an attribute of what triggered a rule: `n.price`, `component.rank`."""

    of: str
    attribute: str


@dataclass(frozen=True, slots=True)
class Event:
    """The event that a rule reacts to: pub, con (with a name for the notification), sub, unsub, adv, unadv, join,
    leave."""

    kind: str
    filter: Filter = EVERYTHING
    ident: str | None = None
    component: str = "*"
    scope: str = "*"


@dataclass(frozen=True, slots=True)
class Create:
    """CREATE NOW [INCLUDE COMPONENT [selection]]: an instance of the definition that contains the rule."""

    include: bool = False
    ident: str | None = None


@dataclass(frozen=True, slots=True)
class Features:
    """The properties of the scope itself in a definition, deployment or change."""

    border: Border = Border()
    imposed: Border = Border()
    roles: tuple[str, ...] = ()
    attributes: tuple[tuple[str, Any], ...] = ()
    """Names with values, or with a `Reference` inside a rule."""
    outward: Steps | None = None
    inward: Steps | None = None
    policies: tuple[tuple[Direction, Policy], ...] = ()
    traverse: Traverse | None = None
    admits: Filter | None = None
    rules: tuple[Rule, ...] = ()
    named: tuple[tuple[str, Properties], ...] = ()
    """Properties of selections, by their identifiers."""


@dataclass(frozen=True, slots=True)
class Define:
    """DEFINE [ABSTRACT] SCOPE or COMPONENT."""

    name: str
    selections: tuple[Selection, ...] = ()
    features: Features = Features()
    component: bool = False
    abstract: bool = False
    since: Instant | None = None


@dataclass(frozen=True, slots=True)
class Deploy:
    """DEPLOY SCOPE: an instance of a definition joins the running graph."""

    name: str
    instance: str | None = None
    selections: tuple[Selection, ...] = ()
    features: Features = Features()
    architecture: str = ""
    since: Instant | None = None


@dataclass(frozen=True, slots=True)
class Alter:
    """ALTER SCOPE: `mode` is "add", "del", or "" for replacing."""

    name: str
    mode: str = ""
    selections: tuple[Selection, ...] = ()
    features: Features = Features()
    since: Instant | None = None


@dataclass(frozen=True, slots=True)
class DropScope:
    """DROP SCOPE."""

    name: str
    since: Instant | None = None


@dataclass(frozen=True, slots=True)
class Join:
    """JOIN component TO scope; inside a rule None is the component that triggered it."""

    component: str | None
    scope: str
    since: Instant | None = None


@dataclass(frozen=True, slots=True)
class Leave:
    """LEAVE component FROM scope; inside a rule None is the component that triggered it."""

    component: str | None
    scope: str
    since: Instant | None = None


Action: TypeAlias = Alter | Join | Leave | Create


@dataclass(frozen=True, slots=True)
class Rule:
    """UPDATE ON event [IF condition] DO actions."""

    event: Event
    actions: tuple[Action, ...]
    condition: Filter = EVERYTHING


Change: TypeAlias = Deploy | Alter | DropScope | Join | Leave
Statement: TypeAlias = Define | Deploy | Alter | DropScope | Join | Leave
