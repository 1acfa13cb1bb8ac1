"""A record that cannot be read is a value, too: stored with its location and the reason, and counted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from fairlead.errors import ValueRefused

__all__ = ["Rejection", "kind_of_reason"]

_OWN: Final = (
    (re.compile(r", which .* is not$", re.DOTALL), ", which the value is not"),
    (re.compile(r"; (?:hint|write|lines end).*$", re.DOTALL), ""),
    (re.compile(r"; it takes the [\d,]+ lines.*$"), "; it takes the lines behind it into this row"),
    (re.compile(r",? (?:at|in|starting at,) ?(?:line|letter|byte|column) [\d,]+(?: column [\d,]+)?"), ""),
    (re.compile(r",? line \d+ column \d+"), ""),
    (re.compile(r"(: |, not |\bnot )(?:['\"\d\[({<-].*)$", re.DOTALL), ""),
)
"""The parts of a reason that are a value or a place, and what stands for them."""


def kind_of_reason(reason: str) -> str:
    """A reason without values and locations: equal for rejections that are alike."""
    for own, instead in _OWN:
        reason = own.sub(instead, reason)
    return reason


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
    def kind(self) -> str:
        """The reason without what is this one's own, so that alike rejections can be counted together."""
        return kind_of_reason(self.reason)

    @property
    def text(self) -> str:
        """The raw input as text; bytes and halves of characters that are none are shown escaped."""
        raw = self.raw if isinstance(self.raw, bytes) else self.raw.encode(errors="surrogatepass")
        return raw.decode(errors="backslashreplace")

    def jsonable(self) -> dict[str, Any]:
        """The rejection as a JSON object."""
        return {"source": self.source, "line": self.line, "reason": self.reason, "raw": self.text}
