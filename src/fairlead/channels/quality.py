"""The qualities that a channel may prescribe, as frozen values, and how a file has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fairlead.configuration import Key, Kind, Reading, Wrong, count, expected, file_of, made, text, texts
from fairlead.errors import ChannelError
from fairlead.filters.filter import Filter
from fairlead.filters.language import render

__all__ = ["FILTER", "RETAIN", "Retain"]

COUNT_MAX: Final = 1_000


def _text_of(filter: str | Filter) -> str:
    return filter if isinstance(filter, str) else render(filter)


FILTER: Final = Kind(text, _text_of)
"""A filter as a file has it: a text, which is read with the schema later."""


@dataclass(frozen=True, slots=True)
class Retain:
    """The last `count` notifications of each key are kept for those who subscribe later.

    The key is the values of the attributes `per`; that there is none is a value, too. A notification that `ends`
    matches removes its key, and is not kept itself.
    """

    per: Annotated[tuple[str, ...], Key("the attributes whose values make a key", texts)] = ()
    count: Annotated[int, Key("how many of each key are kept", count(1, COUNT_MAX))] = 1
    ends: Annotated[str | Filter | None, Key("notifications that remove their key", FILTER)] = None

    def __post_init__(self) -> None:
        if isinstance(self.per, str) or not all(isinstance(each, str) and each for each in self.per):
            raise ChannelError(
                f"a key is made of names of attributes, not of {self.per!r}", hint='per=("symbol",)'
            )
        object.__setattr__(self, "per", tuple(self.per))
        if (
            isinstance(self.count, bool)
            or not isinstance(self.count, int)
            or not 1 <= self.count <= COUNT_MAX
        ):
            raise ChannelError(f"a channel retains 1 to {COUNT_MAX:,} values of each key, not {self.count!r}")


def _read_retain(given: Any) -> Retain:
    if not isinstance(given, Mapping):
        raise expected('a table such as { per = ["symbol"] }', given)
    reading = Reading(file_of(Retain))
    table = reading.table("", given)
    if reading.problems:
        raise Wrong("; ".join(reading.problems))
    return Retain(**made(Retain, {"": table}))


def _write_retain(retain: Retain) -> dict[str, Any]:
    ends = {} if retain.ends is None else {"ends": _text_of(retain.ends)}
    return {"per": list(retain.per), "count": retain.count, **ends}


RETAIN: Final = Kind(_read_retain, _write_retain)
