"""The material of the project's own tests: worlds, nodes, chaos without sockets, a disk that loses its power."""

from __future__ import annotations

__all__: list[str] = []
