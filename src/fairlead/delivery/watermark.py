"""The watermark: no older event is expected; one that arrives all the same is late.

    watermark = min over sources of the newest event time seen there, minus the allowed lateness

It never goes back. The slowest source sets it: a source without events holds it at the beginning. A source that
may be idle holds it at most so far behind the newest event of all sources. A closed source no longer counts; when
all are closed, the watermark is at the end. It is a function of the observed events alone, so it does not depend
on an engine's batch boundaries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fairlead.model.order import BEGINNING, END

__all__ = ["Watermark"]


class Watermark:
    """The progress of the sources of a stream, in microseconds of event time."""

    __slots__ = ("_idle_us", "_lateness_us", "_newest", "_value")

    def __init__(
        self, lateness_us: int = 0, sources: Iterable[str] = (), idle_us: Mapping[str, int] | None = None
    ) -> None:
        if lateness_us < 0:
            raise ValueError(f"the allowed lateness is not negative: {lateness_us}")
        self._lateness_us = lateness_us
        self._idle_us = idle_us or {}
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
            self._raise()

    def reach(self, time: int) -> None:
        """Declare that no earlier event will arrive: a punctuation."""
        self._value = max(self._value, time)

    def close(self, source: str = "") -> None:
        """Declare that a source has ended."""
        self._newest.pop(source, None)
        if self._newest:
            self._raise()
        else:
            self._value = END

    def end(self) -> None:
        """Declare that all sources have ended: the final punctuation."""
        self._newest.clear()
        self._value = END

    def _raise(self) -> None:
        newest = min(self._newest.values())
        if self._idle_us:
            ahead = max(self._newest.values())
            newest = min(
                max(time, ahead - self._idle_us[source]) if source in self._idle_us else time
                for source, time in self._newest.items()
            )
        self._value = max(self._value, newest - self._lateness_us)
