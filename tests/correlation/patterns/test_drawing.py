"""Drawings of automata: all states are there, what is drawn is well-formed, and it says what happens."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from fairlead.correlation.patterns.automaton import Automaton
from fairlead.correlation.patterns.drawing import END, MORE, START, diagram, dot, svg
from fairlead.correlation.patterns.language import parse
from fairlead.correlation.patterns.model import Pattern
from fairlead.drawing import Graph
from fairlead_lab.testing.patterns import patterns

SVG = "{http://www.w3.org/2000/svg}"


def drawn(text: str) -> Graph:
    return diagram(Automaton(parse(text)))


def test_a_sequence_is_a_way_from_the_start_to_the_composite() -> None:
    picture = drawn("Quote[price > 100] as q followed by Trade within 5 minutes, Trade.price > q.price")
    assert [(edge.source, edge.target, edge.lines, edge.is_dashed) for edge in picture.edges] == [
        (START, "S0", (), False),
        ("S0", "S1", ("q: Quote[price > 100]",), True),
        ("S1", END, ("Trade", "if Trade.price > q.price", "within 5 minutes"), False),
    ]


def test_a_timer_is_started_on_an_arrow_and_runs_in_a_state() -> None:
    picture = drawn("A then no B within 5 minutes")
    assert ("A", "start T1 = 5 minutes") in [edge.lines for edge in picture.edges]
    assert [(node.lines, node.border) for node in picture.nodes if node.name == "S1"] == [
        (("S1", "fails on B"), "dotted")
    ]


def test_a_loop_leads_back_to_its_state() -> None:
    assert any(edge.source == edge.target for edge in drawn("3 or more A").edges)


def test_what_is_too_much_to_draw_is_shown_as_more() -> None:
    picture = diagram(Automaton(parse("any order of A, B, C and D")), 3)
    assert any(edge.target == MORE for edge in picture.edges)
    assert MORE in [node.name for node in picture.nodes]


@settings(max_examples=50)
@given(patterns(steps=4, depth=3))
def test_every_state_is_reached_and_every_arrow_joins_two_nodes(pattern: Pattern) -> None:
    picture = diagram(Automaton(pattern), 20)
    names = {node.name for node in picture.nodes}
    assert all({edge.source, edge.target} <= names for edge in picture.edges)
    assert names - {START} == {edge.target for edge in picture.edges} | {END}


@settings(max_examples=50)
@given(patterns(steps=4, depth=3))
def test_pictures_are_well_formed_and_lie_within_their_frame(pattern: Pattern) -> None:
    automaton = Automaton(pattern)
    root = ElementTree.fromstring(svg(automaton, 20))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for rectangle in root.iter(f"{SVG}rect"):
        if rectangle.get("class"):
            x, y = float(rectangle.attrib["x"]), float(rectangle.attrib["y"])
            assert 0 <= x <= x + float(rectangle.attrib["width"]) <= width
            assert 0 <= y <= y + float(rectangle.attrib["height"]) <= height
    assert len(root.findall(f"{SVG}path")) == len(diagram(automaton, 20).edges)


@pytest.mark.parametrize("text", ['A[s = "\\\\ \\" <b>"] followed by B', "`a&b` followed by `<c>`"])
def test_what_is_written_in_pictures_is_escaped(text: str) -> None:
    automaton = Automaton(parse(text))
    shown = "".join(ElementTree.fromstring(svg(automaton)).itertext())
    assert str(automaton.pattern) in shown
    for line in dot(automaton).splitlines():
        assert len(re.findall(r'(?<!\\)(?:\\\\)*"', line)) % 2 == 0


def test_the_same_automaton_is_drawn_for_graphviz() -> None:
    assert dot(Automaton(parse("A followed by B"))) == "\n".join(
        [
            "digraph automaton {",
            "  rankdir=LR;",
            '  label="A followed by B";',
            '  node [shape=box, style=rounded, fontname="monospace"]; edge [fontname="monospace"];',
            '  "start" [label="", shape=point];',
            '  "S0" [label="S0"];',
            '  "S1" [label="S1"];',
            '  "composite" [label="composite", peripheries=2];',
            '  "start" -> "S0" [style=solid];',
            '  "S0" -> "S1" [label="A", style=dashed];',
            '  "S1" -> "composite" [label="B", style=solid];',
            "}",
            "",
        ]
    )
