"""Delivery that no runtime uses: live, in each producer's own order (`fifo`)."""

from __future__ import annotations

__all__: list[str] = []
