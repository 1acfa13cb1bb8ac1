"""Sets of strings, and of byte strings, as constraints describe them: regular languages.

A set is held in the first of these shapes that fits, so that two sets are equal iff their shapes are:

    Words         a finite set, or all words but those: large sets of values stay plain sets
    Interval      low <= word < high; comparisons, prefixes and what they have in common
    Ending        the words with a suffix, or all others
    Containing    the words with a substring, or all others
    Automaton     any other regular language

Comparisons and prefixes are one shape: `w` with the smallest letter appended is the next word after `w`, so
`> w` is `>= w + least` and `<= w` is `< w + least`; the words with prefix "ab" go from "ab" up to "ac".
Hence their relations are decided by comparing two ends, and `s >= "ab" and s < "ac"` is seen to be a prefix.

Each set also has a `form`: a description in terms of constraints, for printing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from fairlead.errors import Undecided
from fairlead.filters import automata, regexes
from fairlead.filters.alphabets import OCTETS, TEXT, Alphabet
from fairlead.filters.automata import Automaton
from fairlead.filters.patterns import RegularExpression, SubjectPattern

__all__ = ["BytesExtent", "Form", "Language", "StringExtent"]

W = TypeVar("W", str, bytes)

Form = tuple[Any, ...]
"""The name of a set:

("words", frozenset)    ("not words", frozenset)    ("prefix", w)    ("suffix", w)    ("substring", w)
("<", w)    ("<=", w)    (">", w)    (">=", w)    ("between", low, high), both ends included
("and", form, form)    ("not", form)    ("pattern", RegularExpression | SubjectPattern)
"""

_WORDS_MAX, _LETTERS_MAX = 1_000, 100_000
"""A finite language of an automaton with at most so many words and letters is turned into words."""

_COUNT_MAX = 1 << 60


# --------------------------------------------------------------------------------------------------- shapes


@dataclass(frozen=True, slots=True)
class Words(Generic[W]):
    """Finitely many words."""

    words: frozenset[W]

    def __contains__(self, word: W) -> bool:
        return word in self.words

    def automaton(self, alphabet: Alphabet[W]) -> Automaton[W]:
        return automata.words(alphabet, self.words)

    def is_small(self) -> bool:
        return len(self.words) <= _WORDS_MAX and sum(map(len, self.words)) <= _LETTERS_MAX


@dataclass(frozen=True, slots=True)
class Interval(Generic[W]):
    """low <= word < high, or low <= word where high is None; neither it nor its complement is finite."""

    low: W
    high: W | None

    def __contains__(self, word: W) -> bool:
        return self.low <= word and (self.high is None or word < self.high)

    def automaton(self, alphabet: Alphabet[W]) -> Automaton[W]:
        return automata.interval(alphabet, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Ending(Generic[W]):
    """The words with a suffix."""

    word: W

    def __contains__(self, word: W) -> bool:
        return word.endswith(self.word)

    def automaton(self, alphabet: Alphabet[W]) -> Automaton[W]:
        return automata.suffix(alphabet, self.word)


@dataclass(frozen=True, slots=True)
class Containing(Generic[W]):
    """The words with a substring."""

    word: W

    def __contains__(self, word: W) -> bool:
        return self.word in word

    def automaton(self, alphabet: Alphabet[W]) -> Automaton[W]:
        return automata.substring(alphabet, self.word)


Shape = Words[W] | Interval[W] | Ending[W] | Containing[W] | Automaton[W]


def _recognised(automaton: Automaton[W]) -> tuple[Shape[W], bool]:
    """The canonical shape of an automaton's language, and whether it is the complement that has it."""
    sides = ((automaton, False), (~automaton, True))
    for side, negated in sides:
        measure = side.measure(_LETTERS_MAX + 1)
        if measure is not None and measure[0] <= _WORDS_MAX and measure[1] <= _LETTERS_MAX:
            return Words(frozenset(side.members())), negated
    for side, negated in sides:
        ends = side.interval()
        if ends is not None:
            return Interval(*ends), negated
    for side, negated in sides:
        # The shortest word with a suffix or a substring is that itself; it takes one state more than letters.
        word = side.witness()
        if word is not None and len(word) + 1 == len(side.rows):
            if side == automata.suffix(side.alphabet, word):
                return Ending(word), negated
            if side == automata.substring(side.alphabet, word):
                return Containing(word), negated
    return automaton, False


# --------------------------------------------------------------------------------------------------- extents


@dataclass(frozen=True, slots=True, eq=False)
class Language(Generic[W]):
    """A regular set of words; `StringExtent` and `BytesExtent` define the letters.

    Made by its class methods and operators only: they keep the shape canonical.
    """

    shape: Shape[W]
    negated: bool = False
    label: Form | None = None
    """The form in which the set was written, where that says more than its shape: a pattern."""
    _built: Automaton[W] | None = field(default=None, repr=False)

    alphabet: ClassVar[Alphabet[Any]]
    kind: ClassVar[type[Any]]

    # ---- constructors

    @classmethod
    def everything(cls) -> Self:
        return cls(Words(frozenset()), negated=True)

    @classmethod
    def nothing(cls) -> Self:
        return cls(Words(frozenset()))

    @classmethod
    def words(cls, *words: W) -> Self:
        """Exactly these words."""
        return cls(Words(frozenset(words)))

    @classmethod
    def prefix(cls, word: W) -> Self:
        return cls.interval(word, cls.alphabet.after_prefix(word))

    @classmethod
    def suffix(cls, word: W) -> Self:
        return cls(Ending(word)) if word else cls.everything()

    @classmethod
    def substring(cls, word: W) -> Self:
        return cls(Containing(word)) if word else cls.everything()

    @classmethod
    def below(cls, word: W) -> Self:
        return cls.interval(cls.alphabet.empty, word)

    @classmethod
    def at_most(cls, word: W) -> Self:
        return cls.interval(cls.alphabet.empty, word + cls.alphabet.least)

    @classmethod
    def above(cls, word: W) -> Self:
        return cls.interval(word + cls.alphabet.least, None)

    @classmethod
    def at_least(cls, word: W) -> Self:
        return cls.interval(word, None)

    @classmethod
    def between(cls, low: W, high: W) -> Self:
        """The words from `low` to `high`, both included."""
        return cls.interval(low, high + cls.alphabet.least)

    @classmethod
    def interval(cls, low: W, high: W | None) -> Self:
        """low <= word < high; without `high`, low <= word."""
        least = cast("W", cls.alphabet.least)
        if high is None:
            return cls(Interval(low, None)) if low.strip(least) else ~cls._run_up(low[:0], len(low))
        if high <= low:
            return cls.nothing()
        if high.startswith(low) and not high[len(low) :].strip(least):
            return cls._run_up(low, len(high) - len(low))
        return cls(Interval(low, high))

    @classmethod
    def _run_up(cls, low: W, number: int) -> Self:
        """So many words one right after the other: only runs of the smallest letter lie that close."""
        if number > _WORDS_MAX:
            raise Undecided(f"more than {_WORDS_MAX} strings differ only in null characters at their end")
        least = cast("W", cls.alphabet.least)
        return cls.words(*(low + least * length for length in range(number)))

    @classmethod
    def of_automaton(cls, automaton: Automaton[W], label: Form | None = None) -> Self:
        """The language of an automaton."""
        shape, negated = _recognised(automaton)
        return cls(shape, negated, label, automaton)

    # ---- the Boolean algebra

    def __invert__(self) -> Self:
        label = None if self.label is None else _negation(self.label)
        built = None if self._built is None else ~self._built
        match self.shape:
            case Interval(low, high) if not low and high is not None:
                return type(self)(Interval(high, None), self.negated, label, built)
            case Interval(low, None):
                return type(self)(Interval(low[:0], low), self.negated, label, built)
            case Automaton():
                return type(self)(~self.shape, False, label, built)
            case _:
                return type(self)(self.shape, not self.negated, label, built)

    def __and__(self, other: Self) -> Self:
        match self.shape, other.shape:
            case Words(), Words() if self.negated and other.negated:
                return type(self)(Words(self.shape.words | other.shape.words), negated=True)
            case Words(words), _ if not self.negated:
                return type(self)(Words(frozenset(word for word in words if word in other)))
            case _, Words() if not other.negated:
                return other & self
            case Words(words), _ if not any(word in other for word in words):
                return other
            case _, Words(words) if not any(word in self for word in words):
                return self
            case Interval(), Interval():
                common = self._common_interval(other)
                if common is not None:
                    return common
        mine, theirs = self.automaton, other.automaton
        both = mine & theirs
        # The operand itself where it is the answer: it may have a label.
        return self if both == mine else other if both == theirs else self.of_automaton(both)

    def __or__(self, other: Self) -> Self:
        return ~(~self & ~other)

    def _common_interval(self, other: Self) -> Self | None:
        """The common part of two intervals, or complements of them; None where it is in two pieces."""
        mine, theirs = cast("Interval[W]", self.shape), cast("Interval[W]", other.shape)
        if self.negated and other.negated:
            apart = _is_below(mine.high, theirs.low) or _is_below(theirs.high, mine.low)
            return (
                None if apart else ~self.interval(min(mine.low, theirs.low), _later(mine.high, theirs.high))
            )
        if self.negated:
            return other._common_interval(self)
        if not other.negated:
            return self.interval(max(mine.low, theirs.low), _earlier(mine.high, theirs.high))
        before = self.interval(mine.low, _earlier(mine.high, theirs.low))
        if theirs.high is None:
            return before
        after = self.interval(max(mine.low, theirs.high), mine.high)
        return before if after.is_empty() else after if before.is_empty() else None

    def __contains__(self, value: Any) -> bool:
        return isinstance(value, self.kind) and (value in self.shape) != self.negated

    # ---- questions

    def is_empty(self) -> bool:
        """No word is a member."""
        return isinstance(self.shape, Words) and not self.shape.words and not self.negated

    def is_full(self) -> bool:
        """Every word is a member."""
        return isinstance(self.shape, Words) and not self.shape.words and self.negated

    def covers(self, other: Self) -> bool:
        """Every member of `other` is a member."""
        match self.shape, other.shape:
            case _, Words(words) if not other.negated:
                return all(word in self for word in words)
            case Words(words), _ if self.negated:
                return not any(word in other for word in words)
            case Words(words), _:
                return other._is_within(words)
            case _, Words(words):
                return (~self)._is_within(words)
            case Interval(), Interval():
                rest = other._common_interval(~self)
                return rest is not None and rest.is_empty()
        return self.automaton.covers(other.automaton)

    def overlaps(self, other: Self) -> bool:
        """Some word is a member of both; settled without making their intersection."""
        return not (~self).covers(other)

    def _is_within(self, words: frozenset[W]) -> bool:
        """All members are among these words, for a set that is not itself given as words."""
        if not isinstance(self.shape, Automaton):
            return isinstance(self.shape, Words) and not self.negated and self.shape.words <= words
        measure = self.shape.measure(len(words) + 1)
        return (
            measure is not None
            and measure[0] <= len(words)
            and all(word in words for word in self.shape.members())
        )

    def witness(self) -> W | None:
        """A shortest member, of readable letters; None iff there is no member."""
        alphabet: Alphabet[W] = self.alphabet
        match self.shape:
            case Words(words) if self.negated:
                return alphabet.first_outside(words)
            case Words(words) if len(words) == 1:
                return next(iter(words))
            case Words(words):
                return min(words, key=alphabet.readability, default=None)
            case Ending(word) | Containing(word) if not self.negated:
                return word
        return self.automaton.witness()

    # ---- identity

    def __eq__(self, other: object) -> bool:
        """The same members. Shapes decide it, but for finite sets too large to list from an automaton."""
        if not isinstance(other, Language) or type(self) is not type(other):
            return NotImplemented
        if isinstance(self.shape, Words) == isinstance(other.shape, Words):
            return self.negated == other.negated and self.shape == other.shape
        if not (isinstance(self.shape, Automaton) or isinstance(other.shape, Automaton)):
            return False
        return self.covers(other) and other.covers(self)

    def __hash__(self) -> int:
        match self.shape:
            case Words(words) if not self.shape.is_small():
                return hash((self.negated, min(len(words), _COUNT_MAX)))
            case Automaton():
                for side, negated in ((self.shape, False), (~self.shape, True)):
                    measure = side.measure(_COUNT_MAX)
                    if measure is not None:
                        return hash((negated, measure[0]))
        return hash((self.negated, self.shape))

    # ---- descriptions

    @property
    def automaton(self) -> Automaton[W]:
        """The automaton, built at the first question that needs it."""
        if self._built is None:
            built = self.shape if isinstance(self.shape, Automaton) else self.shape.automaton(self.alphabet)
            object.__setattr__(self, "_built", ~built if self.negated else built)
        return cast("Automaton[W]", self._built)

    @property
    def form(self) -> Form | None:
        """The set in terms of constraints, or None for a language that has no such name."""
        if self.label is not None:
            return self.label
        match self.shape:
            case Words(words):
                return ("not words" if self.negated else "words", words)
            case Interval(low, high):
                form = self._interval_form(low, high)
            case Ending(word):
                form = ("suffix", word)
            case Containing(word):
                form = ("substring", word)
            case _:
                return None
        return _negation(form) if self.negated else form

    def _interval_form(self, low: W, high: W | None) -> Form:
        least = cast("W", self.alphabet.least)
        lower: Form = (">", low[:-1]) if low.endswith(least) else (">=", low)
        if high is None:
            return lower
        upper: Form = ("<=", high[:-1]) if high.endswith(least) else ("<", high)
        if not low:
            return upper
        if high == self.alphabet.after_prefix(low):
            return ("prefix", low)
        if (lower[0], upper[0]) == (">=", "<="):
            return ("between", lower[1], upper[1])
        return ("and", lower, upper)


def _negation(form: Form) -> Form:
    return cast("Form", form[1]) if form[0] == "not" else ("not", form)


def _earlier(one: W | None, other: W | None) -> W | None:
    """The lower of two upper ends; None is no end at all."""
    return other if one is None else one if other is None else min(one, other)


def _later(one: W | None, other: W | None) -> W | None:
    return None if one is None or other is None else max(one, other)


def _is_below(high: W | None, low: W) -> bool:
    """There are words between the end of one interval and the beginning of the next."""
    return high is not None and high < low


@dataclass(frozen=True, slots=True, eq=False)
class StringExtent(Language[str]):
    """A regular set of strings: sequences of Unicode scalar values, compared by code point."""

    alphabet: ClassVar[Alphabet[Any]] = TEXT
    kind: ClassVar[type[Any]] = str

    @classmethod
    def pattern(cls, pattern: RegularExpression | SubjectPattern | Automaton[str]) -> Self:
        """The strings that match."""
        if isinstance(pattern, Automaton):
            return cls.of_automaton(pattern)
        return cls.of_automaton(pattern.automaton, ("pattern", pattern))

    def to_regex(self) -> str:
        """A regular expression for the set; `Undecided` where it would be too long."""
        return regexes.write(self.automaton)


@dataclass(frozen=True, slots=True, eq=False)
class BytesExtent(Language[bytes]):
    """A regular set of byte strings."""

    alphabet: ClassVar[Alphabet[Any]] = OCTETS
    kind: ClassVar[type[Any]] = bytes
