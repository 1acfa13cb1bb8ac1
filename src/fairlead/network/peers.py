"""The other end of a connection, as the driver of a node implements it."""

from __future__ import annotations

from typing import Final, Protocol

__all__ = ["GONE", "Peer"]


class Peer(Protocol):
    """The other end of a connection."""

    def write(self, data: bytes) -> None:
        """Send, some time."""

    def buffered(self) -> int:
        """The number of bytes that have been written and not sent."""

    def close(self) -> None:
        """End the connection when what was written has been sent."""

    def pause(self) -> None:
        """Read nothing more from it, for now."""

    def resume(self) -> None:
        """Read from it again."""


class _Gone:
    """The peer of a connection that has ended."""

    def write(self, data: bytes) -> None:
        """Nobody is there."""

    def buffered(self) -> int:
        """Nothing waits."""
        return 0

    def close(self) -> None:
        """It is closed."""

    def pause(self) -> None:
        """Nothing arrives."""

    def resume(self) -> None:
        """Nothing arrives."""


GONE: Final[Peer] = _Gone()
