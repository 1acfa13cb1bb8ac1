"""The log messages of a broker's process: one line each, with time, level and broker, as text or as JSON.

Names and reasons come from other machines. Their control characters are escaped, so that nobody writes lines of
their own, or colours, into a log or a terminal. `printable` does that for everything that is shown.

(The durable log of notifications is another thing: `fairlead.log`.)
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Final, TextIO

__all__ = ["FORMS", "LEVELS", "configure", "printable"]

LEVELS: Final = ("debug", "info", "warning", "error")
FORMS: Final = ("text", "json")
_ESCAPES: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def printable(text: str) -> str:
    """The text with its control characters and line breaks escaped."""
    return text if text.isprintable() else text.translate(_ESCAPES)


class _Line(logging.Formatter):
    """The part that both forms share: an instant in UTC, and the message in one line."""

    converter = staticmethod(time.gmtime)

    def __init__(self, broker: str) -> None:
        super().__init__()
        self._broker = printable(broker)

    def instant(self, record: logging.LogRecord) -> str:
        return f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z"


class _Text(_Line):
    def format(self, record: logging.LogRecord) -> str:
        message = printable(record.getMessage())
        line = f"{self.instant(record)} {record.levelname} {self._broker}: {message}"
        return line if record.exc_info is None else f"{line}\n{self.formatException(record.exc_info)}"


class _Json(_Line):
    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": self.instant(record),
            "level": record.levelname.lower(),
            "broker": self._broker,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info is not None:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=True)


def configure(broker: str, level: str, form: str, stream: TextIO | None = None) -> None:
    """Write this process's log messages of a level, and above, to a stream, by default standard error."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter((_Json if form == "json" else _Text)(broker))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
