"""The protocol of a dialect, and the parts that all dialects share."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from fairlead.errors import FairleadError, NotInstalled, TranslationRefused
from fairlead.filters.algebra import identical

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fairlead.filters import Filter

__all__ = ["Dialect", "make_callable", "translating", "written"]


class Dialect(Protocol):
    """A language of filters. The modules of this package have its functions."""

    def read(self, text: str, /) -> Filter:
        """The filter that a text stands for, or TranslationRefused."""
        ...

    def write(self, filter: Filter, /) -> str:
        """A text that means what the filter means, or TranslationRefused."""
        ...

    def __call__(self, text: str, /) -> Filter:
        """The same as `read`."""
        ...


class _CallableModule(ModuleType):
    def __call__(self, text: str, **options: Any) -> Filter:
        read: Callable[..., Filter] = self.__dict__["read"]
        return read(text, **options)


def make_callable(name: str) -> None:
    """Let the module of a dialect be called: `dialects.mqtt("a/+")` is `dialects.mqtt.read("a/+")`."""
    sys.modules[name].__class__ = _CallableModule


@contextmanager
def translating(what: str) -> Iterator[None]:
    """Refuse the translation for whatever the algebra refuses, such as an expression that is too large."""
    try:
        yield
    except (NotInstalled, TranslationRefused):
        raise
    except FairleadError as error:
        raise TranslationRefused(f"{what} has no filter: {error}") from error


def written(filter: Filter, candidates: Iterable[str], read: Callable[[str], Filter], language: str) -> str:
    """The first candidate that is read as a filter with the same meaning. TranslationRefused if none is.

    Writers propose, and the algebra decides: so no writer can change the meaning of a filter.
    """
    for candidate in candidates:
        try:
            if identical(read(candidate), filter):
                return candidate
        except TranslationRefused:
            continue
    raise TranslationRefused(f"{language} cannot say: {filter}")
