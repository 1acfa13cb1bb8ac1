"""The laboratory's commands: `fairlead simulate`, `fairlead bench`, `fairlead demo`."""

from __future__ import annotations

__all__: list[str] = []
