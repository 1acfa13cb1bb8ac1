"""Figures of a running pipeline: what Prometheus reads is the sum of what was committed."""

from __future__ import annotations

import re
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.console.pipelines import BUCKETS_S, COUNTERS, Figures, served
from fairlead.network.addresses import Address
from fairlead.spark.summary import Batch

COUNTS = st.integers(0, 10**9)
BATCHES = st.builds(
    Batch,
    number=st.integers(0, 10**6),
    read=COUNTS,
    rejected=COUNTS,
    duplicates=COUNTS,
    late=COUNTS,
    released=COUNTS,
    held=COUNTS,
    deliveries=COUNTS,
    watermark=st.none() | st.integers(0, 2**53),
    seconds=st.floats(0, 1_000),
    composites=COUNTS,
    conflicts=COUNTS,
)
SAMPLE = re.compile(r'(\w+)\{pipeline="a \\"b\\"(?:",le="([^"]+))?"\} (\S+)')


def read(text: str) -> dict[tuple[str, str], float]:
    """The samples of a text; every line is one, or a comment that begins a family."""
    lines = [line for line in text.splitlines() if not line.startswith("# ")]
    found = [SAMPLE.fullmatch(line) for line in lines]
    assert all(found), lines
    return {(each[1], each[2] or ""): float(each[3]) for each in found if each is not None}


@given(st.lists(BATCHES, max_size=6))
def test_counters_are_the_sums_of_what_batches_have_committed(batches: list[Batch]) -> None:
    figures = Figures('a "b"')
    for each in batches:
        figures.took(each)
    samples = read(figures.text())
    for name in COUNTERS:
        assert samples[f"fairlead_pipeline_{name}_total", ""] == sum(getattr(each, name) for each in batches)
    took = "fairlead_pipeline_batch_seconds"
    for bound in BUCKETS_S:
        assert samples[f"{took}_bucket", str(bound)] == sum(each.seconds <= bound for each in batches)
    assert samples[f"{took}_bucket", "+Inf"] == samples[f"{took}_count", ""] == len(batches)
    assert samples[f"{took}_sum", ""] == pytest.approx(sum(each.seconds for each in batches))
    if batches:
        assert samples["fairlead_pipeline_held", ""] == batches[-1].held
        assert (("fairlead_pipeline_watermark_seconds", "") in samples) == (batches[-1].watermark is not None)


def test_figures_are_served_while_the_pipeline_runs() -> None:
    figures = Figures("quotes", lambda: "batch 3, match")
    with served(figures, Address("127.0.0.1", 0)) as port:
        figures.took(Batch(3, 10, 1, 0, 0, 9, 0, 7, 1_500_000, 0.3))
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert 'fairlead_pipeline_deliveries_total{pipeline="quotes"} 7\n' in text
        assert 'fairlead_pipeline_working{pipeline="quotes"} 1\n' in text
        assert 'fairlead_pipeline_watermark_seconds{pipeline="quotes"} 1.5\n' in text
        with urlopen(f"http://127.0.0.1:{port}/livez", timeout=60) as answer:
            assert answer.status == 200
        with pytest.raises(HTTPError, match="404") as refused:
            urlopen(f"http://127.0.0.1:{port}/else", timeout=60)
        refused.value.close()
