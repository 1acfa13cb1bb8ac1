"""Visibility for whole batches is visibility of each notification."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairlead.scopes import ScopeGraph, ScopePlan
from fairlead.scopes.sliced import Sliced
from fairlead_lab.testing.scopes import COMPONENTS, graphs, publications


@given(graphs(), st.data())
def test_sees_says_of_each_pair_what_reach_says(graph: ScopeGraph, data: st.DataObject) -> None:
    events = [data.draw(publications(number)) for number in range(data.draw(st.integers(1, 70)) % 7 + 1)]
    plan, components = ScopePlan(graph), (*COMPONENTS, "nobody")
    sliced = Sliced(ScopePlan(graph))
    passed = {each: np.array([each.matches(n) for n in events], np.bool_) for each in sliced.filters}
    rows = np.repeat(np.arange(len(events)), len(components))
    whose = np.tile(np.arange(len(components)), len(events))
    batch = sliced.batch(sliced.positions([each.producer for each in events]), passed)
    half = len(rows) // 2  # what is asked later finds what was computed before
    positions = sliced.positions(components)[whose]
    asked = [batch.sees(rows[part], positions[part]) for part in (slice(None, half), slice(half, None))]
    found = np.concatenate(asked)
    for number, event in enumerate(events):
        wanted = {sight.component for sight in plan.reach(event, lambda _: components).sights}
        own = found[number * len(components) : (number + 1) * len(components)]
        seen = {name for name, seen in zip(components, own, strict=True) if seen}
        assert seen | {event.producer} == wanted | {event.producer}
        assert event.producer in wanted
