"""A process that connects under the name of a neighbour is refused while that neighbour is connected and answers.

A copy of a log never gets past the original; a broker that was started anew gets past the connection that its
former process has left behind. Nodes without sockets.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fairlead.errors import ProtocolError
from fairlead.network import wire
from fairlead.network.backpressure import TICKS
from fairlead.network.link_sessions import CHALLENGE_S
from fairlead_lab.testing.nodes import End, Line

REFUSAL = "another process of b1 is connected with b0"


def called_by_another_process(line: Line) -> End:
    """A process with a copy of the log of `b1` calls `b0`."""
    left, right = line.nodes
    hello = right.hello("b0")
    end = End(left)
    lineage = [*hello.lineage, ("another", hello.end)]
    end.session = left.greet(end, replace(hello, life="another", lineage=lineage, end=hello.end + 1))
    return end


@given(st.lists(st.integers(0, 2 * CHALLENGE_S * TICKS), max_size=8))
def test_a_copy_is_refused_while_the_original_answers(pauses: list[int]) -> None:
    line = Line(2)
    session = line.nodes[0].links["b1"].session
    known = line.nodes[0].persistence.state.neighbours["b1"].lineage
    for ticks in pauses:
        with pytest.raises(ProtocolError, match=REFUSAL):
            called_by_another_process(line)
        line.settle()
        for _ in range(ticks):
            line.nodes[0].tick(0)
        line.settle()
    assert line.nodes[0].links["b1"].session is session
    assert line.nodes[0].persistence.state.neighbours["b1"].lineage == known
    assert line.nodes[0].links["b1"].ready


@given(st.integers(0, CHALLENGE_S * TICKS - 1))
def test_a_process_gets_past_a_connection_that_does_not_answer(early: int) -> None:
    line = Line(2)
    left = line.nodes[0]
    session = left.links["b1"].session
    assert session is not None
    with pytest.raises(ProtocolError, match=REFUSAL):
        called_by_another_process(line)
    for _ in range(early):
        left.tick(0)
    with pytest.raises(ProtocolError, match=REFUSAL):
        called_by_another_process(line)
    for _ in range(CHALLENGE_S * TICKS - early):
        left.tick(0)
    assert session.ended
    end = called_by_another_process(line)
    end.hear(wire.control(wire.Table([], [])))
    assert left.links["b1"].session is end.session


def test_the_connection_of_the_same_process_is_taken_at_once() -> None:
    line = Line(2)
    left, right = line.nodes
    before = left.links["b1"].session
    assert before is not None
    end = End(left)
    end.session = left.greet(end, right.hello("b0"))
    assert before.ended
    assert left.links["b1"].session is end.session
