"""The definition of fair subscriptions as a program (`reference`)."""

from __future__ import annotations

__all__: list[str] = []
