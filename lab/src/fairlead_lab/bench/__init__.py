"""Measuring: Fairlead and its alternatives on the same workloads, in one run, with the spread.

A figure is worth what it is compared with, so engines stand side by side, each cell in a process of its own, and
every cell first answers like the oracle before its speed counts for anything.
"""

from __future__ import annotations

__all__: list[str] = []
