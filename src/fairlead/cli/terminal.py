"""The output of commands: JSON for programs, colours on a terminal, errors in one form."""

from __future__ import annotations

import io
import os
import sys
import time
from typing import Any, Final, TextIO

__all__ = ["Progress", "complain", "emit_json", "note", "paint", "say", "speaks_unicode", "write_utf8"]

STYLES: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "cyan": "36",
}


def complain(message: str) -> None:
    """An error, to standard error."""
    print(f"fairlead: {message}", file=_tolerant(sys.stderr))


def note(message: str) -> None:
    """Something to know beside the answer, to standard error."""
    print(message, file=_tolerant(sys.stderr))


def emit_json(jsonable: Any) -> None:
    """One line of JSON."""
    from fairlead.model.encoding import format_json

    write_utf8()
    sys.stdout.write(f"{format_json(jsonable)}\n")


def write_utf8() -> None:
    """JSON is UTF-8, whatever the terminal speaks."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(encoding="utf-8")


def say(line: str = "") -> None:
    """Print a line; characters that the terminal cannot show are escaped."""
    print(line, file=_tolerant(sys.stdout))


def speaks_unicode(stream: TextIO) -> bool:
    """Whether ✓ can be written."""
    try:
        "✓✗→…".encode(stream.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def paint(text: str, *styles: str, stream: TextIO | None = None) -> str:
    """The text in colour where a terminal shows it, unless NO_COLOR is set (no-color.org)."""
    stream = stream or sys.stdout
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return text
    return f"\x1b[{';'.join(STYLES[style] for style in styles)}m{text}\x1b[0m"


def _tolerant(stream: TextIO) -> TextIO:
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="backslashreplace")
    return stream


class Progress:
    """A line on standard error that counts along, where a person is watching and it takes long."""

    PATIENCE_S: Final = 1.0
    EVERY_S: Final = 0.2

    def __init__(self, what: str) -> None:
        self._what = what
        self._watched = sys.stderr.isatty()
        self._started = time.monotonic()
        self._due = self._started + self.PATIENCE_S
        self._shown = False

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._started

    def at(self, count: int) -> None:
        """Say how far it is, now and then."""
        if self._watched and time.monotonic() >= self._due:
            self._due = time.monotonic() + self.EVERY_S
            self._shown = True
            sys.stderr.write(f"\r{count:,} {self._what}, {count / self.elapsed_s:,.0f}/s\x1b[K")
            sys.stderr.flush()

    def done(self) -> None:
        """Wipe the line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
