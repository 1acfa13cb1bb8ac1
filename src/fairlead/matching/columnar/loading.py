"""Loads the kernels beside the event loop: on a new machine they are compiled, which takes a while."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Thread
from typing import Final

from fairlead.filters.language import parse
from fairlead.model import Notification

__all__ = ["Kernels"]

log: Final = logging.getLogger(__name__)


def _in_a_thread(work: Callable[[], None]) -> None:
    Thread(target=work, name="fairlead-kernels", daemon=True).start()


class Kernels:
    """The kernels of an engine that does not wait for them. `begin` runs a function in another thread."""

    def __init__(self, begin: Callable[[Callable[[], None]], None] = _in_a_thread) -> None:
        self.begin = begin
        """Runs a function in another thread."""
        self._is_loading = self.are_ready = False

    def load(self) -> bool:
        """Whether they are there; if not, they are loaded from now on."""
        if not self.are_ready and not self._is_loading:
            self._is_loading = True
            self.begin(self._load)
        return self.are_ready

    def _load(self) -> None:
        from fairlead.matching.columnar.engine import Columnar

        try:
            # Importing compiles most of them; making a base, asking it and merging another one with it the rest.
            engine: Columnar[int] = Columnar(small=0)
            filters = [parse(text) for text in ('x > 0 and s = "a"', 's prefix "a" or x in {1, 2}', "x = 1")]
            engine.add_many(enumerate(filters))
            engine.match(Notification.of({"x": 1, "s": "a"}))
            engine.add(len(filters), filters[0])
            engine.compact()
        except Exception:
            log.exception("the kernels cannot be loaded: filters are matched in pure Python")
        else:
            self.are_ready = True
