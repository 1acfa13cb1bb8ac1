"""A record that cannot be read is a value, too: stored with its location and the reason, and counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairlead.errors import ValueRefused

__all__ = ["Rejection"]


@dataclass(frozen=True, slots=True)
class Rejection:
    """Input that is no notification: its location, the reason, and the raw input."""

    source: str
    line: int | None
    reason: str
    raw: str | bytes

    @classmethod
    def of(cls, error: ValueRefused, raw: str | bytes, *, source: str, line: int | None = None) -> Rejection:
        """The rejection that an error at the door amounts to."""
        return cls(source, line, str(error).replace("\n  hint: ", "; "), raw)

    @property
    def text(self) -> str:
        """The raw input as text; bytes and halves of characters that are none are shown escaped."""
        raw = self.raw if isinstance(self.raw, bytes) else self.raw.encode(errors="surrogatepass")
        return raw.decode(errors="backslashreplace")

    def jsonable(self) -> dict[str, Any]:
        """The rejection as a JSON object."""
        return {"source": self.source, "line": self.line, "reason": self.reason, "raw": self.text}
