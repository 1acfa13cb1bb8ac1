"""Specifications in their literal form: as temporal formulas, and those of routing in every state."""

from __future__ import annotations

__all__: list[str] = []
