"""The harness's own arithmetic, and that a slow or broken process is told apart from a result."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_lab.bench.runner import (
    Patience,
    Rounds,
    Stopped,
    TooSlow,
    exponent,
    fresh,
    machine,
    rates,
    spread_of,
)


@given(st.lists(st.floats(min_value=0.1, max_value=1e9), min_size=1, max_size=20))
def test_the_spread_encloses_the_quartiles_and_these_the_median(samples: list[float]) -> None:
    spread = spread_of(samples)
    assert spread.min <= spread.low * (1 + 1e-9)
    assert spread.low <= spread.median * (1 + 1e-9)
    assert spread.median <= spread.high * (1 + 1e-9)
    assert spread.high <= spread.max * (1 + 1e-9)
    assert (spread.min, spread.max, spread.rounds) == (min(samples), max(samples), len(samples))


def test_the_quartiles_of_five_rounds_are_the_second_and_the_fourth() -> None:
    spread = spread_of([50.0, 10.0, 40.0, 20.0, 30.0])
    assert (spread.low, spread.median, spread.high) == (20.0, 30.0, 40.0)


@given(
    st.floats(min_value=-2, max_value=3),
    st.floats(min_value=1e-6, max_value=1e3),
    st.lists(st.integers(1, 10**6), min_size=2, max_size=6, unique=True),
)
def test_the_exponent_of_a_power_of_n_is_that_power(power: float, factor: float, sizes: list[int]) -> None:
    found = exponent([(n, factor * n**power) for n in sizes])
    assert found == pytest.approx(power, abs=1e-3)


@pytest.mark.parametrize("points", [[], [(10, 1.0)], [(10, 1.0), (10, 2.0)], [(1, 0.0), (10, 1.0)]], ids=str)
def test_there_is_no_exponent_without_two_sizes_that_cost_something(points: list[tuple[int, float]]) -> None:
    assert exponent(points) is None


@given(st.floats(min_value=0.01, max_value=100), st.floats(min_value=0.01, max_value=100))
def test_noise_around_a_line_is_averaged_and_not_followed(low: float, high: float) -> None:
    # Two measurements at each size, a fixed factor apart: the slope is that of their middle.
    points = [(n, factor * n) for n in (10, 100, 1000) for factor in (low, high)]
    assert exponent(points) == pytest.approx(1.0, abs=1e-6)


def test_rates_are_items_over_seconds_for_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def work(part: int) -> None:
        clock[0] += part * 0.001

    monkeypatch.setattr(time, "process_time", lambda: clock[0])
    assert rates(work, 64, Rounds(count=3, slice_s=0.5)) == pytest.approx([1000.0] * 3)


def test_a_part_is_grown_only_as_far_as_a_slice_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, parts = [0.0], []

    def work(part: int) -> None:
        parts.append(part)
        clock[0] += part * 1.0

    monkeypatch.setattr(time, "process_time", lambda: clock[0])
    rates(work, 1000, Rounds(count=2, slice_s=0.1))
    assert parts == [1, 1, 1]  # one notification is slow enough: it is not made to deal with a thousand


def test_patience_ends_what_takes_too_long() -> None:
    with pytest.raises(TooSlow), Patience(0.01).waiting():
        Event().wait(60)  # until patience ends it


def test_pauses_do_not_count_against_patience() -> None:
    patience = Patience(0.2)
    with patience.waiting(), patience.paused():
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_patience_ends_with_its_block() -> None:
    patience = Patience(0.01)
    with patience.waiting():
        pass
    with patience.paused():
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_process_that_fails_is_told_with_its_last_words() -> None:
    with pytest.raises(Stopped, match=r"failed: .*unexpected keyword"):
        fresh("fairlead_lab.bench.cell", {"nonsense": 1}, 60)


def test_a_process_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text("while True: pass\n")
    with pytest.raises(Stopped, match="too slow: stopped"):
        fresh("endless", {}, 0.5, {"PYTHONPATH": str(tmp_path)})


def test_the_machine_is_described() -> None:
    described = machine()
    assert described["cores"] >= 1
    assert len(described["load"]) == 3
    assert described["cpu"]
    assert "fairlead" in described["versions"]
