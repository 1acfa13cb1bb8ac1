"""From statements to the running graph: definitions, deployment and changes (book 6.6.2, 6.6.3).

A definition describes a scope as a class describes objects; deployment makes an instance, and resolves what the
definition asks for to components that are there. WHERE is evaluated at deployment, and again where ALTER names a
selection. A system is a value: applying a statement gives the next one, or a `ScopeError` and nothing has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from fairlead.errors import ScopeError
from fairlead.filters import EVERYTHING
from fairlead.scopes.conditions import holds
from fairlead.scopes.features import bidirectional, bordered, combined, featured, with_policies, without
from fairlead.scopes.graph import Component, Node, Outsiders, Scope, ScopeGraph
from fairlead.scopes.interfaces import Edge, effective
from fairlead.scopes.language.statements import (
    STAR,
    Alter,
    Between,
    Border,
    Define,
    Deploy,
    DropScope,
    Features,
    Join,
    Leave,
    Properties,
    Ranked,
    Rule,
    Selection,
    Source,
    Statement,
)
from fairlead.scopes.mappings import IDENTITY
from fairlead.scopes.policies import Direction, ranked
from fairlead.scopes.tables import EMPTY, Table

__all__ = ["Deployed", "System", "select"]


@dataclass(frozen=True, slots=True)
class Deployed:
    """The facts about an instance besides its node: its definition, its named selections, its rules."""

    definition: str
    named: Mapping[str, frozenset[str]]
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class System:
    """Definitions, and the graph of what is deployed."""

    graph: ScopeGraph
    definitions: Table[Define] = EMPTY
    deployed: Table[Deployed] = EMPTY
    created: Table[int] = EMPTY
    """The number of instances that rules have made of each definition."""

    @classmethod
    def of(cls, statements: Iterable[Statement], outsiders: Outsiders = "default") -> System:
        """The system after these statements.

        Statements that deploy nothing stand for the graph that they describe: every definition is deployed once,
        under its own name, and then the other statements are applied.
        """
        given = list(statements)
        system = cls(ScopeGraph.of(outsiders=outsiders))
        if not any(isinstance(statement, Deploy) for statement in given):
            scopes = [each for each in given if isinstance(each, Define) and not each.component]
            for definition in scopes:
                system = system.apply(definition)
            components = [each for each in given if isinstance(each, Define) and each.component]
            system = system._deploy([Deploy(each.name) for each in scopes], components)
            given = [each for each in given if not isinstance(each, Define)]
        for statement in given:
            system = system.apply(statement)
        return system

    def apply(self, statement: Statement) -> System:
        """The system after a statement."""
        match statement:
            case Define() if statement.component:
                return self._deploy([], [statement])
            case Define(name):
                if name in self.definitions:
                    raise ScopeError(f"{name} is defined twice", hint=f"ALTER SCOPE {name} changes it")
                return replace(self, definitions=self.definitions.having(name, statement))
            case Deploy():
                return self._deploy([statement], [])
            case Alter(name):
                if self.graph.is_scope(name):
                    return _Altering(self, statement).altered()
                if name in self.definitions:
                    return self._redefined(statement)
                raise ScopeError(f"no scope is named {name}")
            case DropScope(name):
                return self._dropped(name)
            case Join(component, scope):
                return self._joined(_named(component), scope)
            case Leave(component, scope):
                return replace(self, graph=self.graph.without_edge(_named(component), scope))

    def _joined(self, component: str, scope: str) -> System:
        if component in self.definitions and component not in self.graph:
            _undeployed(component)
        if scope in self.graph.superscopes(component) and component in self.graph:
            return self
        mapping = self.graph.node(component).mapping
        graph = self.graph.having_edge(Edge(component, scope, mapping=mapping))
        return replace(self, graph=graph)

    def _dropped(self, name: str) -> System:
        if self.graph.is_scope(name):
            return replace(self, graph=self.graph.without_node(name), deployed=self.deployed.without(name))
        if name in self.definitions:
            return replace(self, definitions=self.definitions.without(name))
        raise ScopeError(f"no scope is named {name}")

    def _redefined(self, change: Alter) -> System:
        """A definition that is changed: only instances that are deployed later follow it."""
        definition = self.definitions[change.name]
        if change.mode == "del":
            gone = set(change.selections)
            selections = tuple(each for each in definition.selections if each not in gone)
            features = without(definition.features, change.features)
        else:
            idents = {each.ident for each in change.selections if each.ident} if not change.mode else set()
            kept = tuple(each for each in definition.selections if each.ident not in idents)
            selections = (*kept, *change.selections)
            features = combined(definition.features, change.features, replacing=not change.mode)
        changed = replace(definition, selections=selections, features=features)
        return replace(self, definitions=self.definitions.having(change.name, changed))

    # -- deployment ----------------------------------------------------------------------------------------------

    def _deploy(self, statements: list[Deploy], components: list[Define]) -> System:
        """Deploy definitions together: first all nodes, then the edges upwards, then those downwards."""
        building = _Building(self)
        wholes = [building.created(statement) for statement in statements]
        for component in components:
            building.component(component)
        for whole in (*wholes, *components):
            for selection in whole.selections:
                if selection.superscopes:
                    building.selected(whole.name, selection)
        for whole in _members_first(wholes):
            for selection in whole.selections:
                if not selection.superscopes:
                    building.selected(whole.name, selection)
        for whole in wholes:
            building.named(whole.name, whole.features.named)
        return building.finished()


def _named(component: str | None) -> str:
    if component is None:
        raise ScopeError(
            "COMPONENT is the component that triggers a rule, and this is no rule", hint="name a component"
        )
    return component


def _undeployed(name: str) -> NoReturn:
    raise ScopeError(f"{name} is defined and not deployed", hint=f"DEPLOY SCOPE {name}")


def _members_first(definitions: list[Define]) -> list[Define]:
    """Definitions in an order in which the members of a scope are known when another one selects from them."""
    names = {each.name: each for each in definitions}
    order: list[Define] = []
    state: dict[str, bool] = {}

    def visit(each: Define, path: tuple[str, ...]) -> None:
        if state.get(each.name):
            return
        if each.name in path:
            chain = " from ".join((*path, each.name))
            raise ScopeError(f"the members of {each.name} depend on themselves: {chain}")
        for selection in each.selections:
            for source in selection.sources if not selection.superscopes else ():
                if source.depth and source.name in names and source.name != each.name:
                    visit(names[source.name], (*path, each.name))
        state[each.name] = True
        order.append(each)

    for each in definitions:
        visit(each, ())
    return order


# -- selections --------------------------------------------------------------------------------------------------


def select(system: System, selection: Selection, owner: str = "") -> list[str]:
    """The names that a selection of `owner` takes, by name; `ScopeError` where it cannot be resolved."""
    graph = system.graph
    candidates = sorted(
        {name for source in selection.sources for name in _base(system, source, selection, owner)}
    )
    chosen = [
        name
        for name in candidates
        if name != owner
        and (not selection.superscopes or graph.is_scope(name))
        and (selection.where == EVERYTHING or holds(selection.where, graph.node(name)))
    ]
    match selection.qualifier:
        case Ranked(attribute, count, largest):
            order = ranked(tuple(chosen), attribute, lambda name: graph.node(name).attributes)
            if not largest:
                order = _ascending(order, attribute, graph)
            return sorted(order[:count])
        case Between(least, most):
            if least is not None and len(chosen) < least:
                what = "superscopes" if selection.superscopes else "members"
                raise ScopeError(
                    f"{owner or 'the scope'} needs at least {least} {what} and there are {len(chosen)}"
                    f"{': ' + ', '.join(chosen) if chosen else ''}",
                    hint="deploy or define the components that the selection requires",
                )
            return chosen if most is None else chosen[:most]
    return chosen


def _ascending(order: list[str], attribute: str, graph: ScopeGraph) -> list[str]:
    """The smallest first; equal ones still by name."""
    groups: list[list[str]] = []
    for name in order:
        value = graph.node(name).attributes.lookup(attribute)
        if groups and graph.node(groups[-1][0]).attributes.lookup(attribute) == value:
            groups[-1].append(name)
        else:
            groups.append([name])
    return [name for group in reversed(groups) for name in group]


def _base(system: System, source: Source, selection: Selection, owner: str) -> Iterable[str]:
    graph = system.graph
    if source == STAR:
        above = list(graph.superscopes(owner)) if owner in graph else []
        around = {member for scope in above for member in graph.members(scope)}
        if selection.superscopes:
            around |= {each for scope in above for each in graph.above(scope)}
            around = {name for name in around if graph.is_scope(name) and owner not in graph.above(name)}
        return around
    if source.depth:
        found = {source.name}
        for _ in range(source.depth):
            found = {member for scope in found if graph.is_scope(scope) for member in graph.members(scope)}
        if not graph.is_scope(source.name):
            _unknown(system, source.name)
        return found
    if source.name not in graph and (selection.superscopes or source.name in system.definitions):
        _unknown(system, source.name)
    return (source.name,)


def _unknown(system: System, name: str) -> NoReturn:
    if name in system.definitions:
        _undeployed(name)
    raise ScopeError(f"no scope is named {name}", hint=f"DEFINE SCOPE {name} AS …, and DEPLOY it")


# -- building ----------------------------------------------------------------------------------------------------


class _Building:
    """The next graph, as the clauses of statements are followed; edges that both ends speak of become one."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.graph = system.graph
        self.deployed = system.deployed
        self.is_unidirectional: list[tuple[str, str, str]] = []
        """Edges with a mapping of one direction, and the direction that is missing."""
        self.half_mapped: dict[str, str] = {}
        """Components with a mapping of one direction for all their edges."""

    def created(self, statement: Deploy) -> Define:
        """Make the node of an instance; its definition, with what the deployment adds, under its own name."""
        definition: Define | None = self.system.definitions.get(statement.name)
        name = statement.instance or statement.name
        if definition is None:
            hint = f"DEFINE SCOPE {statement.name} AS …"
            raise ScopeError(f"no scope is defined as {statement.name}", hint=hint)
        if name in self.graph:
            raise ScopeError(
                f"{name} is there already", hint=f"DEPLOY SCOPE {statement.name} AS another name"
            )
        features = combined(definition.features, statement.features, replacing=False)
        whole = replace(
            definition,
            name=name,
            selections=(*definition.selections, *statement.selections),
            features=features,
        )
        scope = Scope(name, abstract=definition.abstract, architecture=statement.architecture)
        self.node(scope, features)
        self.deployed = self.deployed.having(name, Deployed(statement.name, {}, features.rules))
        return whole

    def component(self, statement: Define) -> None:
        """Make or change a simple component."""
        present = self.graph.node(statement.name)
        if isinstance(present, Scope):
            raise ScopeError(f"{statement.name} is a scope")
        features = statement.features
        refused = [
            word
            for word, given in (
                ("IMPOSE INTERFACES", features.imposed != Border()),
                ("TRAVERSE", features.traverse is not None),
                ("ADMIT", features.admits is not None),
                ("UPDATE", bool(features.rules)),
                ("a policy of members", any(d is not Direction.PUBLISHING for d, _ in features.policies)),
                ("members", any(not each.superscopes for each in statement.selections)),
            )
            if given
        ]
        if refused:
            raise ScopeError(
                f"a component has no members, so {refused[0]} means nothing for {statement.name}"
            )
        self.node(Component(statement.name), features)

    def node(self, node: Node, features: Features) -> None:
        """Set a node with its features."""
        self.graph = self.graph.having_node(featured(node, features, ""))
        if features.outward is not None or features.inward is not None:
            missing = bidirectional(features.outward, features.inward)[1]
            if missing:
                self.half_mapped[node.name] = missing

    def selected(self, owner: str, selection: Selection) -> list[str]:
        """Make the edges of a selection."""
        names = select(replace(self.system, graph=self.graph, deployed=self.deployed), selection, owner)
        for name in names:
            self.edge(owner, name, selection.properties, upward=selection.superscopes)
        self.among(owner, selection.properties, names, upward=selection.superscopes)
        if selection.ident is not None:
            known = self.deployed.get(owner) or Deployed(owner, {})
            named = {
                **known.named,
                selection.ident: known.named.get(selection.ident, frozenset()) | set(names),
            }
            self.deployed = self.deployed.having(owner, replace(known, named=named))
        return names

    def named(self, owner: str, named: Iterable[tuple[str, Properties]]) -> None:
        """Properties of selections that stand apart from them."""
        known = self.deployed.get(owner) or Deployed(owner, {})
        for ident, properties in named:
            if ident not in known.named:
                raise ScopeError(f"{owner} has no selection {ident}", hint=f"{ident}: ALL FROM … names one")
            names = sorted(known.named[ident])
            for name in names:
                upward = name in self.graph.superscopes(owner)
                self.edge(owner, name, properties, upward=upward)
            self.among(
                owner, properties, names, upward=bool(names) and names[0] in self.graph.superscopes(owner)
            )

    def edge(self, owner: str, name: str, properties: Properties, *, upward: bool) -> None:
        """Make or change one edge: the interface is the owner's, selective upwards and imposed downwards."""
        member, scope = (owner, name) if upward else (name, owner)
        known = self.graph.superscopes(member).get(scope) if member in self.graph else None
        inherited = self.graph.node(member).mapping
        edge = known or Edge(member, scope, mapping=inherited)
        changed = bordered(edge.selective if upward else edge.imposed, properties.border)
        edge = replace(edge, selective=changed) if upward else replace(edge, imposed=changed)
        if known is None and member in self.half_mapped:
            self.is_unidirectional.append((member, scope, self.half_mapped[member]))
        if properties.outward is not None or properties.inward is not None:
            mapping, missing = bidirectional(properties.outward, properties.inward)
            edge = replace(edge, mapping=mapping)
            if missing:
                self.is_unidirectional.append((member, scope, missing))
        self.graph = self.graph.having_edge(edge)

    def among(self, owner: str, properties: Properties, names: list[str], *, upward: bool) -> None:
        """Policies that stand with a selection choose among those selected."""
        if not properties.policies:
            return
        for direction, _ in properties.policies:
            if (direction is Direction.PUBLISHING) is not upward:
                where = "superscopes" if upward else "members"
                raise ScopeError(f"a {direction.value} policy of {owner} cannot choose among {where}")
        limited = tuple((d, replace(policy, among=frozenset(names))) for d, policy in properties.policies)
        node = self.graph.node(owner)
        self.graph = self.graph.having_node(with_policies(node, limited, replacing=False))

    def finished(self) -> System:
        """The system with what was built; a mapping that says nothing of one direction needs it closed."""
        for member, scope, missing in self.is_unidirectional:
            check_closed(self.graph, member, scope, missing)
        return replace(self.system, graph=self.graph, deployed=self.deployed)


def check_closed(graph: ScopeGraph, member: str, scope: str, missing: str) -> None:
    """Refuse an edge with a mapping of one direction whose other direction is open."""
    edge = graph.superscopes(member).get(scope)
    if edge is None:
        return
    crossing = effective(graph, edge)[0 if missing == "outward" else 1]
    if not crossing.closed:
        side = "OUTPUT" if missing == "outward" else "INPUT"
        raise ScopeError(
            f"the edge from {member} to {scope} maps one direction, and the other is open",
            hint=f"MAP {missing.upper()} {{ … }}, or close it: {side}(0)",
        )


class _Altering:
    """ALTER SCOPE on an instance."""

    def __init__(self, system: System, change: Alter) -> None:
        self.change = change
        self.building = _Building(system)
        self.system = system

    def altered(self) -> System:
        change, building, name = self.change, self.building, self.change.name
        scope = building.graph.scope(name)
        # Replacing replaces the policies that are mentioned; roles and attributes are set either way.
        building.graph = building.graph.having_node(featured(scope, change.features, change.mode))
        self._remap(name)
        for selection in change.selections:
            if change.mode == "del":
                self._deselect(name, selection)
            elif not change.mode and selection.ident is not None:
                self._reselect(name, selection)
            else:
                building.selected(name, selection)
        building.named(name, change.features.named if change.mode != "del" else ())
        known = building.deployed.get(name) or Deployed(name, {})
        rules = change.features.rules
        if rules:
            left = tuple(rule for rule in known.rules if rule not in rules) if change.mode else ()
            kept = left if change.mode == "del" else (*left, *rules)
            building.deployed = building.deployed.having(name, replace(known, rules=kept))
        return building.finished()

    def _remap(self, name: str) -> None:
        """A mapping of the scope itself is that of all its edges to superscopes."""
        features, building = self.change.features, self.building
        if features.outward is None and features.inward is None:
            return
        outward, inward = features.outward, features.inward
        for scope, edge in list(building.graph.superscopes(name).items()):
            if self.change.mode == "del":
                building.graph = building.graph.having_edge(replace(edge, mapping=IDENTITY))
            else:
                building.edge(name, scope, Properties(outward=outward, inward=inward), upward=True)

    def _deselect(self, name: str, selection: Selection) -> None:
        building = self.building
        present = replace(self.system, graph=building.graph, deployed=building.deployed)
        open_ended = replace(selection, qualifier=_any_number(selection))
        for other in select(present, open_ended, name):
            member, scope = (name, other) if selection.superscopes else (other, name)
            if scope in building.graph.superscopes(member):
                building.graph = building.graph.without_edge(member, scope)

    def _reselect(self, name: str, selection: Selection) -> None:
        building = self.building
        known = building.deployed.get(name) or Deployed(name, {})
        before = known.named.get(selection.ident or "", frozenset())
        building.deployed = building.deployed.having(
            name, replace(known, named={**known.named, selection.ident or "": frozenset()})
        )
        after = set(building.selected(name, selection))
        for other in sorted(before - after):
            member, scope = (name, other) if selection.superscopes else (other, name)
            if scope in building.graph.superscopes(member):
                building.graph = building.graph.without_edge(member, scope)


def _any_number(selection: Selection) -> Any:
    """A selection without its numbers: all that it names is taken away, and a least number would refuse
    fewer.
    """
    qualifier = selection.qualifier
    return Between(None, qualifier.most) if isinstance(qualifier, Between) else qualifier
