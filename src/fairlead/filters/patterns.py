"""Patterns over strings: regular expressions and the subjects of subject-based addressing (book 2.1.3).

Law: `p.matches(s)` iff `s in p.automaton`. A pattern is a value: two patterns are equal iff they are written
alike. Whether two patterns mean the same is a question for their automata.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from fairlead.errors import FilterError
from fairlead.filters import regexes
from fairlead.filters.alphabets import TEXT
from fairlead.filters.automata import Automaton
from fairlead.filters.regexes import Join, Op, Repeat, Symbols

__all__ = ["RegularExpression", "SubjectPattern"]

_compiled = lru_cache(maxsize=512)(regexes.compiled)


@dataclass(frozen=True, slots=True)
class RegularExpression:
    """A string matches iff the expression describes the whole of it; in time linear in the string.

    The syntax is that of `fairlead.filters.regexes`. What cannot be read, and what is too large, is refused
    when the expression is made.
    """

    text: str
    automaton: Automaton[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "automaton", _compiled(self.text))

    def matches(self, string: str) -> bool:
        return string in self.automaton


_ONE, _MANY = "*", "**"


@dataclass(frozen=True, slots=True)
class SubjectPattern:
    """A subject matches iff its levels do, one by one: `*` is any one level, `**` is zero or more levels.

    A level may be empty: "a//b" has three. `sports/**` matches `sports` itself.
    """

    text: str
    separator: str = "/"
    levels: tuple[str, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.separator) != 1 or self.separator == "*" or "\ud800" <= self.separator <= "\udfff":
            raise FilterError(f"the separator {self.separator!r} is not one character other than '*'")
        levels: list[str] = []
        column = 1
        for level in self.text.split(self.separator):
            if "*" in level and level not in (_ONE, _MANY):
                raise FilterError(
                    f"column {column}: the level {level!r} of the subject {self.text!r} holds a wildcard "
                    "among other characters",
                    hint="* is one whole level, ** any number of them; for parts use a regular expression",
                )
            if level != _MANY or levels[-1:] != [_MANY]:
                levels.append(level)
            column += len(level) + 1
        TEXT.encode(self.text)  # refuses lone surrogates
        object.__setattr__(self, "levels", tuple(levels))

    def matches(self, subject: str) -> bool:
        levels = subject.split(self.separator)
        if _MANY not in self.levels:
            return len(levels) == len(self.levels) and all(
                wanted in (_ONE, level) for wanted, level in zip(self.levels, levels, strict=True)
            )
        # Greedy: only the last ** ever needs to take one more level.
        at = place = 0
        retry_at = retry_place = -1
        while at < len(levels):
            wanted = self.levels[place] if place < len(self.levels) else None
            if wanted == _MANY:
                retry_at, retry_place = at, place
                place += 1
            elif wanted is not None and (wanted in (_ONE, levels[at])):
                at += 1
                place += 1
            elif retry_place >= 0:
                retry_at += 1
                at, place = retry_at, retry_place + 1
            else:
                return False
        return all(wanted == _MANY for wanted in self.levels[place:])

    @property
    def automaton(self) -> Automaton[str]:
        """The matching subjects; `Undecided` where that takes too many states (many `*` after a `**`)."""
        return _subjects(self.levels, self.separator)


@lru_cache(maxsize=512)
def _subjects(levels: tuple[str, ...], separator: str) -> Automaton[str]:
    """The automaton of a subject pattern.

    Built for subjects with a separator after every level, where `**` is a plain repetition of levels; then
    the last separator is taken away again.
    """
    (cut,) = TEXT.encode(separator)
    end = Symbols(((cut, cut),))
    around = ((0, cut - 1), (cut + 1, TEXT.size - 1))
    inner = Symbols(tuple((first, last) for first, last in around if first <= last))
    one: list[Op] = [inner, Repeat("*"), end, Join(2)]
    operations: list[Op] = []
    for level in levels:
        if level == _ONE:
            operations += one
        elif level == _MANY:
            operations += [*one, Repeat("*")]
        else:
            operations += [Symbols(((symbol, symbol),)) for symbol in TEXT.encode(level)]
            operations += [end, Join(len(level) + 1)]
    return regexes.automaton_of([*operations, Join(len(levels))]).completed_by(separator)
