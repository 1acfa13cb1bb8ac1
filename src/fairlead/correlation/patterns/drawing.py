"""Detection automata as graphs to draw.

    solid arrow        strong: what is taken lies wholly behind what was taken last
    dashed arrow       weak: it may overlap
    double border      the composite event is there (the generative state of book 7.4.1)
    dotted border      a timer or a window runs (the book's time states)

An arrow says what is taken, which conditions are asked, which timers start, and which windows must not have
passed; a state says on what it fails. States are numbered as in the automaton, from S0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from fairlead import drawing
from fairlead.correlation.patterns.automaton import ACCEPTED, Automaton, State
from fairlead.correlation.patterns.model import Atom
from fairlead.correlation.patterns.printer import render_condition, render_event, render_events
from fairlead.correlation.patterns.reactions import Move
from fairlead.drawing import Edge, Graph, Node
from fairlead.model.durations import render_duration, render_moment

__all__ = ["diagram", "dot", "svg"]

STATES: Final = 60
"""The number of states that are drawn unless more are asked for."""
START, END, MORE = "start", "composite", "more"


def diagram(automaton: Automaton, states: int = STATES) -> Graph:
    """The states of an automaton, up to a number, and their transitions."""
    found = automaton.explored(states)
    shown = {state.number for state in found}
    edges = [Edge(START, f"S{number}", ()) for number in automaton.initial]
    for state in found:
        edges += (_edge(automaton, state, move, shown) for move in automaton.possible(state))
    nodes = [Node(START, (), shape="point"), *(_node(automaton, state) for state in found)]
    if any(edge.target == MORE for edge in edges):
        nodes.append(Node(MORE, ("…",), shape="plain"))
    nodes.append(Node(END, (automaton.pattern.name,), border="double"))
    return Graph("automaton", str(automaton.pattern), tuple(nodes), tuple(_merged(edges)))


def _node(automaton: Automaton, state: State) -> Node:
    steps = [automaton.steps[number].atom for number in state.atoms]
    lines = [f"S{state.number}", *(f"fails on {each}" for atom in steps for each in _failing(atom))]
    is_timed = any(register in automaton.timer_names for register in state.live)
    return Node(f"S{state.number}", tuple(dict.fromkeys(lines)), border="dotted" if is_timed else "solid")


def _failing(atom: Atom) -> Iterator[str]:
    if atom.domain is not None:
        yield render_events(atom.domain)
    yield from sorted(atom.domain_timers)


def _edge(automaton: Automaton, state: State, move: Move, shown: set[int]) -> Edge:
    target = END if move.state == ACCEPTED else f"S{move.state}" if move.state in shown else MORE
    lines = [_taken(automaton.steps[number].atom) for number in move.took]
    lines += (f"if {each}" for each in _conditions_on(automaton, move))
    for register in move.armed:
        spec = automaton.timer_specs[register]
        time = render_duration(spec) if isinstance(spec, int) else render_moment(spec)
        lines.append(f"start {automaton.timer_names[register]} = {time}")
    windows = [duration for _, duration in move.closed] + ([] if move.bound is None else [move.bound])
    lines += (f"within {render_duration(each)}" for each in windows)
    is_strong = any(state.strong >> number & 1 for number in move.took)
    return Edge(f"S{state.number}", target, tuple(lines), is_dashed=not is_strong)


def _conditions_on(automaton: Automaton, move: Move) -> Iterator[str]:
    """The conditions that may be asked on a move: those whose other steps can have been taken before."""
    repeated = automaton.pattern.repeated_steps
    for number in move.took:
        before = {step.atom.step for step in automaton.steps[: number + 1]} | repeated
        for question in (*automaton.steps[number].questions, *automaton.steps[number].deferred):
            if question.condition.steps <= before:
                yield render_condition(question.condition)
    if move.state == ACCEPTED:
        yield from (render_condition(question.condition) for question in automaton.final)


def _taken(atom: Atom) -> str:
    events = [] if atom.filter is None else [render_event(atom.filter)]
    what = " or ".join([*events, *sorted(atom.timers)])
    return what if what == atom.step else f"{atom.step}: {what}"


def _merged(edges: Iterable[Edge]) -> Iterator[Edge]:
    """Arrows between the same nodes as one, with all that they say."""
    found: dict[tuple[str, str, bool], list[str]] = {}
    for edge in edges:
        lines = found.setdefault((edge.source, edge.target, edge.is_dashed), [])
        lines += ["or", *edge.lines] if lines else edge.lines
    for (source, target, is_dashed), lines in found.items():
        yield Edge(source, target, tuple(lines), is_dashed)


def dot(automaton: Automaton, states: int = STATES) -> str:
    """The automaton for Graphviz."""
    return drawing.dot(diagram(automaton, states))


def svg(automaton: Automaton, states: int = STATES) -> str:
    """The automaton as a picture: columns by the number of steps, from the left to the right."""
    return drawing.svg(diagram(automaton, states))
