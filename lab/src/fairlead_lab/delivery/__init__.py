"""Delivery that no runtime uses: live, in each producer's own order (`fifo`); the specification of shared
subscribers as a program (`sharing`)."""

from __future__ import annotations

__all__: list[str] = []
