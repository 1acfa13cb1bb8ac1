"""Patterns defined by a program (`definition`, `reference`) and detected in parts (`decomposition`, `joining`)."""

from __future__ import annotations

__all__: list[str] = []
