"""A network as a graph to draw, and as a tree of text.

A link that is down is dashed; so is the border of a broker that could not be asked. A link that closes a cycle,
where the brokers of a network must not have any, is red.
"""

from __future__ import annotations

from typing import Final

from fairlead import drawing
from fairlead.drawing import Edge, Graph, Node
from fairlead.network.survey import Survey

__all__ = ["described", "dot", "entries", "graph", "svg", "text"]

CLIENTS: Final = {"c:": "client", "d:": "durable"}
"""Prefixes of a routing table's destinations that are no neighbours."""


def text(survey: Survey, *, tables: bool = False, plain: bool = False) -> str:
    """The brokers as a tree, with their routing tables if the survey has them."""
    parents = {each: name for name, below in survey.children().items() for each in below}

    def lines(name: str) -> list[str]:
        parent = parents.get(name)
        is_up = parent is None or survey.is_up(parent, name)
        state = "" if is_up else f"  (the link is down{survey.why_down(str(parent), name)})"
        return ["  ".join(described(survey, name)) + state, *(entries(survey, name) if tables else ())]

    drawn = [*drawing.tree(survey.first, survey.children().__getitem__, lines, plain)]
    drawn += (_beside(survey, a, b) for a, b in survey.beside())
    drawn += (f"{each.broker} - {each.other} {each}" for each in survey.waits)
    return "\n".join([*drawn, ""])


def _beside(survey: Survey, a: str, b: str) -> str:
    """A link that is not in the tree, in words."""
    if not survey.is_cyclic:
        return f"{a} - {b} closes a cycle: end one of its links"
    return f"{a} - {b} is one more way{'' if survey.is_up(a, b) else f', and down{survey.why_down(a, b)}'}"


def described(survey: Survey, name: str) -> list[str]:
    """A broker in words: its name, where it is, and what it has."""
    seen = survey.brokers[name]
    if seen.status is None:
        return [name, seen.problem]
    behind = sum(link["behind"] for link in seen.status["links"].values())
    figures = [
        _counted(seen.status["clients"] - 1, "client"),  # the one that asks is not meant
        _counted(seen.status["subscriptions"], "subscription"),
        *([f"{behind:,} behind"] if behind else ()),
    ]
    return [name, seen.url, ", ".join(figures)]


def entries(survey: Survey, name: str) -> list[str]:
    """The routing table of a broker, an entry in a line: the filter, and where what it matches goes."""
    tables = survey.brokers[name].tables or {}
    return [
        *(f"{filter} -> {_destination(to)}" for filter, to in tables.get("subscriptions", ())),
        *(f"{filter} <- {_destination(to)}" for filter, to in tables.get("advertisements", ())),
    ]


def _destination(name: str) -> str:
    kind = CLIENTS.get(name[:2])
    return name if kind is None else f"{kind} {name[2:]}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _lines(survey: Survey, name: str, tables: bool) -> list[str]:
    waits = (f"{each.other} {each}" for each in survey.waits if each.broker == name)
    return [*described(survey, name), *waits, *(entries(survey, name) if tables else ())]


def graph(survey: Survey, *, tables: bool = False) -> Graph:
    """The brokers and their links."""
    cycles = () if survey.is_cyclic else survey.beside()
    return Graph(
        "network",
        ", ".join(survey.brokers),
        tuple(
            Node(
                name, tuple(_lines(survey, name, tables)), border="dashed" if seen.status is None else "solid"
            )
            for name, seen in sorted(survey.brokers.items(), key=lambda each: each[0] != survey.first)
        ),
        tuple(
            Edge(a, b, is_dashed=not survey.is_up(a, b), is_wrong=(a, b) in cycles) for a, b in survey.links
        ),
        is_directed=False,
    )


def dot(survey: Survey, *, tables: bool = False) -> str:
    """The network for Graphviz."""
    return drawing.dot(graph(survey, tables=tables))


def svg(survey: Survey, *, tables: bool = False) -> str:
    """The network as a picture: the first broker on the left, its neighbours beside it, and so on."""
    return drawing.svg(graph(survey, tables=tables))
