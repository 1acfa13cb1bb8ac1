"""The laboratory on Spark: the demo's sample and showcase, the baseline, sweeps of simulations."""

from __future__ import annotations

__all__: list[str] = []
