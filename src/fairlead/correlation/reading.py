"""Reading a language in which filters are written between its own words.

    Quote[price > 100] as q followed by Trade

The words, numbers and strings are those of the filter language; what stands in brackets is read by it, and its
complaints get their place in the whole text. What is asked may have a name, which stands before it: `spike: …`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

from fairlead.errors import FairleadError, FilterError, FilterSyntaxError
from fairlead.filters import Attribute, Constraint, Filter, Op, parse, render
from fairlead.filters.language.lexer import NAME, STRING
from fairlead.filters.language.reader import Reader
from fairlead.filters.terms import quote_name
from fairlead.model import check_name

if TYPE_CHECKING:
    from fairlead.filters import Schema

__all__ = ["LENGTH_MAX", "NAMELESS", "FilterReader", "render_prefix", "render_value"]

LENGTH_MAX: Final = 1_000_000
"""The number of characters a text may have."""
NAMELESS: Final = frozenset({"composite", "composite.partial", "relation"})
"""The types of what is found for patterns and fair subscriptions without a name: nothing else is called so."""
_PLACE: Final = re.compile(r"line (\d+), column (\d+): ([^\n]*)")


class FilterReader(Reader):
    """A reader that can hand parts of its text to the filter language."""

    __slots__ = ("schema",)
    WHOLE: ClassVar = "text"
    """The name of the whole in complaints."""

    def __init__(self, source: str, schema: Schema | None = None) -> None:
        if len(source) > LENGTH_MAX:
            what = f"a {self.WHOLE} has at most {LENGTH_MAX} characters"
            raise FilterSyntaxError.at(source, LENGTH_MAX, what)
        super().__init__(source)
        self.schema = schema

    def prefix(self) -> str | None:
        """The name before a colon, if there is one; it is consumed."""
        if self.kinds[self.at] not in (NAME, STRING) or self.texts[self.at + 1] != ":":
            return None
        start = self.starts[self.at]
        name = self.string() if self.kinds[self.at] == STRING else self.name()
        if name in NAMELESS:
            raise self.refused(f"{name} is the type of unnamed detections", start, hint="name it otherwise")
        self.at += 1
        return name

    def filter(self, start: int, end: int) -> Filter:
        """The filter between two positions of the source; errors have their location in the whole text."""
        part = self.source[start:end]
        try:
            return parse(part, self.schema)
        except (FilterSyntaxError, FilterError) as error:
            found = _PLACE.match(str(error))
            if found is None:
                raise self.relocated(error, start) from None
            line, column, problem = int(found[1]), int(found[2]), found[3]
            lines = part.split("\n")[: line - 1]
            offset = start + sum(len(each) + 1 for each in lines) + column - 1
            if isinstance(error, FilterError):
                raise self.refused(problem, offset, hint=error.hint) from None
            problem = problem.partition("; expected ")[0]
            raise self.problem(problem, offset, expected=error.expected, hint=error.hint) from None

    def enclosed(self, closing: str) -> Filter:
        """The filter between the bracket here and the one that closes it, which are stepped over."""
        begin = self.starts[self.at] + 1
        self.at = self.closing(self.at)
        if self.kinds[self.at] != closing:
            raise self.problem("this bracket is not closed", begin - 1, expected=(closing,))
        self.at += 1
        return self.filter(begin, self.starts[self.at - 1])

    def closing(self, opening: int) -> int:
        """The token that closes what a token opens, or the end; half-open ranges let any bracket close any."""
        depth = 0
        for at in range(opening, len(self.kinds)):
            depth += (self.kinds[at] in ("(", "[", "{")) - (self.kinds[at] in (")", "]", "}"))
            if not depth:
                return at
        return len(self.kinds) - 1


def render_prefix(name: str) -> str:
    """A name and a colon, as `prefix` reads them: in quotes, where it is no name of an attribute."""
    try:
        return f"{quote_name(check_name(name))}: "
    except FairleadError:
        return f"{render_value(name)}: "


def render_value(value: Any) -> str:
    """A value as the filter language writes it."""
    return render(Constraint(Attribute("v"), Op.EQ, value)).removeprefix("v = ")
