"""The letters of words, numbered in the order in which words are compared.

Strings are words over the 1,112,064 scalar values of Unicode, byte strings over the 256 octets. Scalar values
are numbered without the gap of the surrogates; otherwise a set of letters could look inhabited and hold
nothing but surrogates, and every answer on emptiness would be wrong for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice, product
from typing import Generic, TypeVar

from fairlead.errors import ValueRefused

__all__ = ["OCTETS", "TEXT", "Alphabet"]

W = TypeVar("W", str, bytes)


@dataclass(frozen=True, slots=True)
class Alphabet(Generic[W]):
    """The letters of a kind of words, numbered in the order in which the words are compared."""

    name: str
    size: int
    empty: W = field(compare=False)
    least: W = field(compare=False)
    """The word of the smallest letter: `w + least` is the successor of `w` in the order of words."""
    readable: tuple[tuple[int, int], ...] = field(compare=False, repr=False)
    """Ranges of symbols, those first that read best in an example; together they are all symbols."""
    encode: Callable[[W], Iterable[int]] = field(compare=False, repr=False)
    decode: Callable[[Iterable[int]], W] = field(compare=False, repr=False)

    def most_readable(self, first: int, last: int) -> tuple[int, int]:
        """The rank and the symbol that reads best among `first … last`."""
        for rank, (low, high) in enumerate(self.readable):
            if max(first, low) <= min(last, high):
                return rank, max(first, low)
        raise AssertionError(f"no symbol in {first}…{last}")

    def readability(self, word: W) -> tuple[int, list[tuple[int, int]]]:
        """A key: shorter words first, then those of more readable letters."""
        ranks = [self.most_readable(symbol, symbol) for symbol in self.encode(word)]
        return len(ranks), ranks

    def letters(self) -> Iterator[int]:
        """All symbols, each once, the most readable first."""
        for rank, (low, high) in enumerate(self.readable):
            earlier = self.readable[:rank]
            for symbol in range(low, high + 1):
                if not any(first <= symbol <= last for first, last in earlier):
                    yield symbol

    def first_outside(self, excluded: Collection[W]) -> W:
        """The shortest word, of the most readable letters, that is not in the (finite) collection."""
        # With one letter more than there are words, a word of one letter is free (if there are as many).
        pool = list(islice(self.letters(), len(excluded) + 1))
        candidates = (self.decode(word) for length in count() for word in product(pool, repeat=length))
        return next(word for word in candidates if word not in excluded)

    def after_prefix(self, word: W) -> W | None:
        """The smallest word above all words with this prefix, or None where there is none."""
        symbols = list(self.encode(word))
        while symbols and symbols[-1] == self.size - 1:
            symbols.pop()
        if not symbols:
            return None
        symbols[-1] += 1
        return self.decode(symbols)


_SURROGATES_FIRST, _SURROGATES_COUNT = 0xD800, 0x800


def _scalars_to_symbols(word: str) -> Iterable[int]:
    points = list(map(ord, word))
    if not points or max(points) < _SURROGATES_FIRST:
        return points
    return list(map(_symbol, points))


def _symbol(point: int) -> int:
    if point < _SURROGATES_FIRST:
        return point
    if point < _SURROGATES_FIRST + _SURROGATES_COUNT:
        raise ValueRefused(
            f"U+{point:04X} is a lone surrogate, not a character",
            hint="strings are sequences of Unicode scalar values",
        )
    return point - _SURROGATES_COUNT


def _symbols_to_scalars(symbols: Iterable[int]) -> str:
    return "".join(chr(s if s < _SURROGATES_FIRST else s + _SURROGATES_COUNT) for s in symbols)


_TEXT_SIZE = 0x110000 - _SURROGATES_COUNT
_ASCII = ((0x61, 0x7A), (0x30, 0x39), (0x41, 0x5A), (0x21, 0x7E), (0x20, 0x7E))

TEXT: Alphabet[str] = Alphabet(
    name="text",
    size=_TEXT_SIZE,
    empty="",
    least="\0",
    # Then the letters of Latin, then whatever lies above the controls.
    readable=(*_ASCII, (0xC0, 0x24F), (0xA1, _TEXT_SIZE - 1), (0, _TEXT_SIZE - 1)),
    encode=_scalars_to_symbols,
    decode=_symbols_to_scalars,
)

OCTETS: Alphabet[bytes] = Alphabet(
    name="bytes",
    size=256,
    empty=b"",
    least=b"\0",
    readable=(*_ASCII, (0, 255)),
    encode=lambda word: word,
    decode=bytes,
)
