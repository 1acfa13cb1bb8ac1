"""Scope graphs for tests: cases written down as JSON, and Hypothesis strategies for graphs, events and changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from hypothesis import strategies as st

from fairlead.filters import EVERYTHING, NOTHING, Filter, parse
from fairlead.filters.language.arithmetic import Sum
from fairlead.model import Notification, Record
from fairlead.scopes.graph import Component, Scope, ScopeGraph
from fairlead.scopes.interfaces import CLOSED, OPEN, Edge, Interface
from fairlead.scopes.mappings import (
    Assign,
    Block,
    Computed,
    Constant,
    Copied,
    Drop,
    EdgeMapping,
    Keep,
    Rename,
    Step,
)
from fairlead.scopes.policies import (
    All,
    Chain,
    Delay,
    Hold,
    Nobody,
    One,
    Policy,
    Rate,
    To,
    Top,
    Traverse,
)

__all__ = ["event_of", "graph_of", "graphs", "matched_by", "publications", "subscriptions"]

# -- cases -----------------------------------------------------------------------------------------------------


def _interface(given: Mapping[str, str] | None, missing: Filter) -> Interface:
    given = given or {}
    return Interface(
        parse(given["input"]) if "input" in given else missing,
        parse(given["output"]) if "output" in given else missing,
    )


_STEPS: Final[Mapping[str, Callable[..., Step]]] = {
    "rename": Rename,
    "drop": Drop,
    "set": lambda name, value: Assign(name, Constant(value)),
    "scale": lambda name, factor: Assign(
        name, Computed.from_sum(Sum.attribute(name) * Sum.number(Decimal(str(factor))))
    ),
    "block": lambda text: Block(parse(text)),
}


def _steps(given: Any) -> tuple[Step, ...]:
    return tuple(_STEPS[kind](*arguments) for kind, *arguments in given or ())


_CHOICES: Final[Mapping[str, Callable[[Mapping[str, Any]], Any]]] = {
    "all": lambda _: All(),
    "none": lambda _: Nobody(),
    "to": lambda given: To(tuple(given["members"])),
    "one": lambda given: One(in_turn=given["by"] == "turn"),
    "top": lambda given: Top(given["attribute"], given["k"]),
    "chain": lambda given: Chain(tuple(given["members"])),
    "rate": lambda given: Rate(given["limit"], given["window"]),
    "delay": lambda given: Delay(given["us"]),
    "hold": lambda given: Hold(parse(given["until"]), parse(given.get("discard", "false"))),
}


def _policies(given: Mapping[str, Any] | None) -> tuple[Policy, ...]:
    if given is None:
        return ()
    return (Policy(_CHOICES[given["kind"]](given), parse(given.get("when", "true"))),)


def graph_of(given: Mapping[str, Any]) -> ScopeGraph:
    """The graph of a case: `scopes`, `components`, `edges`; `open` opens the scopes that say nothing else."""
    open_to_all = given.get("open", False)
    scopes = given["scopes"]
    nodes: list[Component | Scope] = []
    for name, about in (scopes if isinstance(scopes, dict) else {name: {} for name in scopes}).items():
        nodes.append(
            Scope(
                name,
                interface=_interface(about, EVERYTHING if open_to_all else NOTHING),
                imposed=_interface(about.get("imposed"), EVERYTHING),
                abstract=about.get("abstract", False),
                publishing=_policies(about.get("publishing")),
                delivery=_policies(about.get("delivery")),
                internal=_policies(about.get("internal")),
                traverse=Traverse(about.get("traverse", "broadcast").replace("-", " ")),
            )
        )
    for name, about in given.get("components", {}).items():
        nodes.append(Component(name, attributes=Record(about.get("attributes", {}))))
    edges: list[Edge | tuple[str, str]] = []
    for edge in given["edges"]:
        if isinstance(edge, list):
            edges.append((edge[0], edge[1]))
            continue
        mapping = edge.get("map", {})
        edges.append(
            Edge(
                edge["child"],
                edge["scope"],
                selective=_interface(edge.get("selective"), EVERYTHING),
                imposed=_interface(edge.get("imposed"), EVERYTHING),
                mapping=EdgeMapping(_steps(mapping.get("outward")), _steps(mapping.get("inward"))),
            )
        )
    return ScopeGraph.of(nodes, edges)


def event_of(given: Mapping[str, Any]) -> Notification:
    """The notification of a publication in a case."""
    envelope = {"producer": given["producer"], "id": given["id"]}
    return Notification.of({**given["content"], **envelope, "time": given.get("time", 0)})


def matched_by(filters: Mapping[str, Mapping[str, Filter]]) -> Callable[[Notification], set[str]]:
    """The components with a matching subscription, asked one by one."""
    return lambda n: {name for name, each in filters.items() if any(f.matches(n) for f in each.values())}


# -- random graphs ---------------------------------------------------------------------------------------------

SCOPES: Final = ("A", "B", "C", "D", "E", "F")
COMPONENTS: Final = ("p", "q", "r", "s", "t", "u")
FILTERS: Final = tuple(
    parse(text) for text in ("x = 1", "x > 1", "x != 2", "exists y", 'type = "A"', "x in {0, 2}")
)
_SOMETIMES: Final = st.sampled_from([EVERYTHING] * 6 + [*FILTERS, NOTHING])
_MOSTLY_OPEN: Final = st.builds(Interface, _SOMETIMES, _SOMETIMES)
_BASE: Final = st.one_of(st.just(OPEN), _MOSTLY_OPEN, st.just(CLOSED))


def steps() -> st.SearchStrategy[tuple[Step, ...]]:
    """Steps of a mapping, over the attributes that `publications` have."""
    x, y = Sum.attribute("x"), Sum.attribute("y")
    each: list[Step] = [
        Rename("x", "y"),
        Rename("y", "x"),
        Rename("y", "z"),
        Drop("y"),
        Drop("type"),
        Keep(("type", "x")),
        Assign("x", Constant(1)),
        Assign("via", Constant("B")),
        Assign("x", Copied("y")),
        Assign("x", Computed.from_sum(x * Sum.number(2))),
        Assign("y", Computed.from_sum(x + y)),
        Assign("x", Computed.from_sum(x - Sum.number(Decimal("0.5")))),
        Block(parse("x = 2")),
    ]
    return st.lists(st.sampled_from(each), min_size=1, max_size=3).map(tuple)


def _policy(names: tuple[str, ...], timed: bool, held: bool) -> st.SearchStrategy[tuple[Policy, ...]]:
    choices = st.sampled_from(
        [
            All(),
            Nobody(),
            To(names[:2]),
            One(),
            One(in_turn=True),
            Top("rank", 2),
            Chain(names[:3]),
            *([Rate(2, 3), Delay(5)] if timed else []),
            *([Hold(FILTERS[0], parse("x = 3"))] if held else []),
        ]
    )
    groups = st.sampled_from([None, None, frozenset(names[:2])])
    one = st.builds(Policy, choices, st.sampled_from([EVERYTHING, EVERYTHING, *FILTERS[:2]]), groups)
    return st.one_of(st.just(()), st.just(()), st.lists(one, min_size=1, max_size=2).map(tuple))


@st.composite
def graphs(
    draw: st.DrawFn,
    *,
    filters: bool = True,
    mappings: bool = False,
    policies: bool = False,
    timed: bool = True,
    held: bool = False,
    abstract: bool = True,
) -> ScopeGraph:
    """Graphs of up to six scopes and six components, acyclic by construction; every scope may be several times
    above another. `timed`: policies may be about time; `held`, hold notifications.
    """
    scopes = SCOPES[: draw(st.integers(1, 6))]
    components = COMPONENTS[: draw(st.integers(2, 6))]
    nodes: list[Component | Scope] = []
    for number, name in enumerate(scopes):
        below = (*scopes[:number], *components)
        nodes.append(
            Scope(
                name,
                interface=draw(_BASE) if filters else OPEN,
                imposed=draw(_MOSTLY_OPEN) if filters else OPEN,
                abstract=abstract and draw(st.sampled_from([False] * 7 + [True])),
                attributes=Record({"rank": number}),
                publishing=draw(_policy(scopes, timed, held)) if policies else (),
                delivery=draw(_policy(below[::-1], timed, held)) if policies else (),
                internal=draw(_policy(below[::-1], timed, held)) if policies else (),
                traverse=draw(st.sampled_from([Traverse.BROADCAST] * 3 + list(Traverse)))
                if policies
                else Traverse.BROADCAST,
            )
        )
    for number, name in enumerate(components):
        nodes.append(
            Component(
                name,
                attributes=Record({"rank": number % 3} if number != 1 else {}),
                publishing=draw(_policy(scopes, timed, held)) if policies else (),
            )
        )
    edges = []
    for number, name in enumerate((*scopes, *components)):
        higher = scopes[number + 1 :] if number < len(scopes) else scopes
        for scope in draw(st.lists(st.sampled_from(higher), unique=True, max_size=3)) if higher else ():
            mapped = mappings and draw(st.booleans())
            edges.append(
                Edge(
                    name,
                    scope,
                    selective=draw(_MOSTLY_OPEN) if filters else OPEN,
                    imposed=draw(_MOSTLY_OPEN) if filters else OPEN,
                    mapping=EdgeMapping(
                        draw(st.one_of(st.just(()), steps())) if mapped else (),
                        draw(st.one_of(st.just(()), steps())) if mapped else (),
                    ),
                )
            )
    return ScopeGraph.of(nodes, edges)


@st.composite
def publications(draw: st.DrawFn, number: int = 1) -> Notification:
    """A notification of one of the components, with few attributes and few values."""
    content: dict[str, Any] = {
        "producer": draw(st.sampled_from((*COMPONENTS, "nobody"))),
        "id": str(number),
        "time": number,
    }
    for name, values in (("x", st.integers(0, 3)), ("y", st.integers(0, 2)), ("type", st.sampled_from("AB"))):
        if draw(st.booleans()):
            content[name] = draw(values)
    return Notification.of(content)


def subscriptions() -> st.SearchStrategy[dict[str, dict[str, Filter]]]:
    """Filters for some of the components, and for one that no graph names."""
    one = st.sampled_from([EVERYTHING, EVERYTHING, *FILTERS]).map(lambda each: {"s": each})
    return st.dictionaries(st.sampled_from((*COMPONENTS, "nobody")), one, min_size=1)
