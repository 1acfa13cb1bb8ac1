"""The watermark: nothing older is expected, and what comes all the same is late.

    watermark = min over sources of the newest event time seen there, minus the allowed lateness

It never goes back. A source that has shown nothing yet holds it at the beginning; one that is closed no longer
counts; when all are closed it stands at the end. The watermark is ours and a function of what was observed, so
it does not depend on how an engine cuts its batches.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.model.order import BEGINNING, END

__all__ = ["Watermark"]


class Watermark:
    """How far the sources of a stream have come, in microseconds of event time."""

    __slots__ = ("_lateness_us", "_newest", "_value")

    def __init__(self, lateness_us: int = 0, sources: Iterable[str] = ()) -> None:
        if lateness_us < 0:
            raise ValueError(f"the allowed lateness is not negative: {lateness_us}")
        self._lateness_us = lateness_us
        self._newest: dict[str, int] = dict.fromkeys(sources, BEGINNING)
        self._value = BEGINNING

    @property
    def value(self) -> int:
        """Order times below it are complete."""
        return self._value

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources that are open."""
        return tuple(self._newest)

    def observe(self, time: int, source: str = "") -> None:
        """Something happened at a time; a source that was not known is open from now on."""
        if time > self._newest.get(source, BEGINNING):
            self._newest[source] = time
            self._raise(min(self._newest.values()))

    def reach(self, time: int) -> None:
        """Nothing that happened before a time is still to come: a punctuation."""
        self._value = max(self._value, time)

    def close(self, source: str = "") -> None:
        """Nothing more comes from a source."""
        self._newest.pop(source, None)
        if self._newest:
            self._raise(min(self._newest.values()))
        else:
            self._value = END

    def end(self) -> None:
        """Nothing more comes from anywhere: the final punctuation."""
        self._newest.clear()
        self._value = END

    def _raise(self, newest: int) -> None:
        self._value = max(self._value, newest - self._lateness_us)
