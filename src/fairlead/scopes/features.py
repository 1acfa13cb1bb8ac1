"""Features of scopes: the properties of one scope from its definition, its deployment and later changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

from fairlead.errors import ScopeError
from fairlead.filters import EVERYTHING, NOTHING
from fairlead.model import Record
from fairlead.scopes.graph import Node, Scope
from fairlead.scopes.interfaces import Interface
from fairlead.scopes.language.statements import Border, Features, Reference
from fairlead.scopes.mappings import IDENTITY, EdgeMapping, Steps, inverse
from fairlead.scopes.policies import Direction, Policy, Traverse

__all__ = ["bidirectional", "bordered", "combined", "featured", "with_policies", "without"]


def bidirectional(outward: Steps | None, inward: Steps | None) -> tuple[EdgeMapping, str]:
    """A mapping of both directions, and the one that is missing; renaming gives its own inverse."""
    if outward is not None and inward is not None:
        return EdgeMapping(outward, inward), ""
    given = outward if outward is not None else inward
    assert given is not None
    back = inverse(given)
    missing = "" if back is not None else "inward" if outward is not None else "outward"
    other = back or ()
    return (EdgeMapping(given, other) if outward is not None else EdgeMapping(other, given)), missing


def bordered(known: Interface, border: Border) -> Interface:
    """An interface with the directions that a clause mentions."""
    if border == Border():
        return known  # which may be the open one, that all plain edges share
    return Interface(
        known.input if border.input is None else border.input,
        known.output if border.output is None else border.output,
    )


def with_policies(node: Node, policies: Iterable[tuple[Direction, Policy]], *, replacing: bool) -> Node:
    """A node with policies appended, or with those of the directions that are mentioned replaced."""
    grouped: dict[str, tuple[Policy, ...]] = {}
    for direction, policy in policies:
        name = direction.value
        start = () if replacing else getattr(node, name)
        grouped[name] = (*grouped.get(name, start), policy)
    return replace(node, **cast(Any, grouped))


def featured(node: Node, features: Features, mode: str) -> Node:
    """A node with features set, added (`add`) or taken away (`del`)."""
    changes: dict[str, Any] = {}
    attributes = dict(node.attributes.items())
    for name, value in features.attributes:
        if isinstance(value, Reference):
            raise ScopeError(f"{value.of}.{value.attribute} has a value only inside of a rule")
        if mode == "del":
            attributes.pop(name, None)
        else:
            attributes[name] = value
    changes["attributes"] = Record(attributes)
    roles = frozenset(features.roles)
    changes["roles"] = node.roles - roles if mode == "del" else node.roles | roles
    if mode == "del":
        closed = NOTHING if isinstance(node, Scope) else EVERYTHING
        changes["interface"] = _unbordered(node.interface, features.border, closed)
    else:
        changes["interface"] = bordered(node.interface, features.border)
    if features.outward is not None or features.inward is not None:
        changes["mapping"] = (
            IDENTITY if mode == "del" else bidirectional(features.outward, features.inward)[0]
        )
    if isinstance(node, Scope):
        if features.imposed != Border():
            changed = (
                _unbordered(node.imposed, features.imposed, EVERYTHING)
                if mode == "del"
                else bordered(node.imposed, features.imposed)
            )
            changes["imposed"] = changed
        if features.traverse is not None:
            changes["traverse"] = Traverse.BROADCAST if mode == "del" else features.traverse
        if features.admits is not None:
            changes["admits"] = EVERYTHING if mode == "del" else features.admits
    changed_node: Node = replace(node, **changes)
    if mode == "del":
        for direction, policy in features.policies:
            left = tuple(
                each
                for each in getattr(changed_node, direction.value)
                if (each.choice, each.when) != (policy.choice, policy.when)
            )
            changed_node = replace(changed_node, **cast(Any, {direction.value: left}))
        return changed_node
    return with_policies(changed_node, features.policies, replacing=mode == "")


def _unbordered(known: Interface, border: Border, missing: Any) -> Interface:
    return Interface(
        known.input if border.input is None else missing, known.output if border.output is None else missing
    )


def combined(first: Features, second: Features, *, replacing: bool) -> Features:
    """The features of a definition with those that a deployment or change adds."""
    both = Features(
        border=_later(first.border, second.border),
        imposed=_later(first.imposed, second.imposed),
        roles=tuple(dict.fromkeys((*first.roles, *second.roles))),
        attributes=tuple({**dict(first.attributes), **dict(second.attributes)}.items()),
        outward=first.outward if second.outward is None else second.outward,
        inward=first.inward if second.inward is None else second.inward,
        policies=(*first.policies, *second.policies),
        traverse=second.traverse or first.traverse,
        admits=first.admits if second.admits is None else second.admits,
        rules=(*first.rules, *second.rules),
        named=(*first.named, *second.named),
    )
    if not replacing:
        return both
    directions = {direction for direction, _ in second.policies}
    kept = tuple(each for each in first.policies if each[0] not in directions)
    return replace(
        both,
        policies=(*kept, *second.policies),
        rules=second.rules or first.rules,
        roles=second.roles or first.roles,
    )


def _later(first: Border, second: Border) -> Border:
    return Border(
        first.input if second.input is None else second.input,
        first.output if second.output is None else second.output,
    )


def without(features: Features, gone: Features) -> Features:
    """The features of a definition without those that a change takes away."""
    return replace(
        features,
        border=Border(
            None if gone.border.input is not None else features.border.input,
            None if gone.border.output is not None else features.border.output,
        ),
        imposed=Border(
            None if gone.imposed.input is not None else features.imposed.input,
            None if gone.imposed.output is not None else features.imposed.output,
        ),
        roles=tuple(role for role in features.roles if role not in gone.roles),
        attributes=tuple(each for each in features.attributes if each[0] not in dict(gone.attributes)),
        outward=None if gone.outward is not None else features.outward,
        inward=None if gone.inward is not None else features.inward,
        policies=tuple(each for each in features.policies if each not in gone.policies),
        traverse=None if gone.traverse is not None else features.traverse,
        admits=None if gone.admits is not None else features.admits,
        rules=tuple(rule for rule in features.rules if rule not in gone.rules),
        named=tuple(each for each in features.named if each not in gone.named),
    )
