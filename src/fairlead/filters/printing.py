"""The registered printers: how filters, patterns and fair subscriptions become text.

    @text_of.register
    def render(filter: Filter) -> str: ...

A value prints itself by `text_of`, and the module that writes its language registers the printer. So a model
imports no language, and a language imports its model: there is no cycle.
"""

from __future__ import annotations

from functools import singledispatch

__all__ = ["text_of"]


@singledispatch
def text_of(value: object) -> str:
    """The text of a value, by the printer of its class or of the nearest base."""
    raise TypeError(f"no printer is registered for {type(value).__name__}")
