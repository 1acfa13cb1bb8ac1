"""Conditions as text. `parse` of what a condition prints is the same condition.

condition = test [ [","] "per" name { "," name } ] [ "or" "after" duration ]
test      = name [ "mean" ] "changes" [ "by" number [ "%" ] ] [ "over" number ]
          | name "deviates" "by" number "over" number
          | "at" "most" number "per" duration
          | "every" number ( "st" | "nd" | "rd" | "th" )
"""

from __future__ import annotations

from typing import ClassVar, Final

from fairlead.conditions.condition import PRODUCER, AtMost, Changes, Condition, Deviates, Every, Test
from fairlead.filters.language.lexer import END, NAME, NUMBER
from fairlead.filters.language.reader import Reader

__all__ = ["condition_of", "parse"]

_ORDINALS: Final = ("th", "st", "nd", "rd")
_TESTS: Final = ("changes", "deviates", "mean changes")


def parse(text: str) -> Condition:
    """The condition of a text; FilterSyntaxError where it is none, FilterError where it means nothing."""
    return _Reading(text).whole()


def condition_of(given: str | Condition) -> Condition:
    """A condition as users give it: a value, or its text."""
    return parse(given) if isinstance(given, str) else given


class _Reading(Reader):
    """One reading of one condition."""

    __slots__ = ()

    WHOLE: ClassVar[str] = "condition"

    def whole(self) -> Condition:
        test = self.test()
        per = self.key()
        after_us = self.duration() if self.took("or", "after") else None
        if self.kinds[self.at] != END:
            raise self.unexpected((*(("per",) if per is None else ()), "or after", "the end"))
        return self.located(0, Condition, test, (PRODUCER,) if per is None else per, after_us)

    def test(self) -> Test:
        start = self.starts[self.at]
        if self.took("at", "most"):
            count = self.whole_number()
            self.demand("per")
            return self.located(start, AtMost, count, self.duration())
        if self.texts[self.at] == "every" and self.kinds[self.at + 1] == NUMBER:
            self.at += 1
            nth = self.whole_number()
            if not any(map(self.took, _ORDINALS)):
                raise self.unexpected(_ORDINALS[:1])
            return self.located(start, Every, nth)
        attribute = self.name()
        if self.took("deviates"):
            self.demand("by")
            by = self.number()
            self.demand("over")
            return self.located(start, Deviates, attribute, by, self.whole_number())
        is_mean = self.took("mean")
        if not self.took("changes"):
            raise self.unexpected(("changes",) if is_mean else _TESTS)
        bound = self.number() if self.took("by") else None
        percent = bound is not None and self.took("%")
        if is_mean:
            self.demand("over")
        over = self.whole_number() if is_mean else None
        return self.located(start, Changes, attribute, bound, percent, over)

    def key(self) -> tuple[str, ...] | None:
        comma = self.kinds[self.at] == ","
        self.at += comma
        if not self.took("per"):
            if comma:
                raise self.unexpected(("per",))
            return None
        names = [self.name()]
        while self.kinds[self.at] == ",":
            self.at += 1
            names.append(self.name())
        return tuple(names)

    def whole_number(self) -> int:
        number = self.number()
        if not isinstance(number, int):
            raise self.refused(f"a whole number is expected, not {number}", self.starts[self.at - 1])
        return number

    def demand(self, word: str) -> None:
        if self.kinds[self.at] != NAME or not self.took(word):
            raise self.unexpected((word,))
