"""Definitions of correlation as programs, and patterns decomposed for detection in parts."""

from __future__ import annotations

__all__: list[str] = []
