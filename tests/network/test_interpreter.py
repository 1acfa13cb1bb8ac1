"""The interpreter of a broker looks for cycles among new things only."""

from __future__ import annotations

import gc
from itertools import pairwise
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.network.interpreter import SETTLED_GROWTH, SETTLED_MIN, Settled


class Cycle:
    """A thing that holds itself."""

    def __init__(self) -> None:
        self.me = self


@given(st.lists(st.integers(0, 2_000_000), max_size=40))
def test_filters_are_left_alone_seldom_and_few_of_them_are_not(numbers: list[int]) -> None:
    frozen: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        now = 0
        patch.setattr(gc, "freeze", lambda: frozen.append(now))
        settled = Settled()
        for now in numbers:
            settled.look_at(now)
            assert now - max(frozen, default=0) <= SETTLED_MIN + (SETTLED_GROWTH - 1) * max(frozen, default=0)
    assert all(later > SETTLED_GROWTH * earlier for earlier, later in pairwise(frozen))
    assert len(frozen) < 40


def test_what_is_left_alone_is_freed_with_its_last_reference() -> None:
    looped = Cycle()
    loop = ref(looped)
    kept = {1: frozenset((2,))}
    value = ref(kept[1])
    try:
        Settled().look_at(SETTLED_MIN + 1)
        assert gc.get_freeze_count() > 0
        kept.clear()
        assert value() is None  # without a search for cycles
        del looped
        gc.collect()
        assert loop() is not None  # a cycle that is garbage later stays: brokers make few
    finally:
        gc.unfreeze()
    gc.collect()
    assert loop() is None
