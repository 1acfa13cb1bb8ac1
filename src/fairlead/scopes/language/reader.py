"""The base of the parser of the scope graph language: its words, and the filters between them.

The tokens are those of the filter language, with comments (`-- …`, and `#` behind white space) taken out. A word
with hyphens is one name here, and in conditions; between the parentheses of an interface, where a filter about
notifications stands, a hyphen is a minus. So there are two lists of tokens over one text, and filters are read in
place: their complaints have the line and column of the whole text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, Final, TypeVar

from fairlead.errors import FilterError, FilterSyntaxError, ScopeError, ScopeSyntaxError
from fairlead.filters import Filter, Schema
from fairlead.filters.filter import EVERYTHING, NOTHING
from fairlead.filters.language.lexer import END, NAME, NUMBER, name_in, tokens
from fairlead.filters.language.parser import Parser
from fairlead.filters.language.reader import Reader
from fairlead.filters.terms import quote_name
from fairlead.scopes.conditions import HasInterface, IsRole

__all__ = ["KEYWORDS", "LENGTH_MAX", "Words"]

LENGTH_MAX: Final = 50_000_000
"""The number of characters a text may have: a graph of 100,000 components is a few megabytes."""

KEYWORDS: Final = frozenset(
    (
        *(
            "ADD",
            "ADDRESSES",
            "ADMIT",
            "ALL",
            "ALTER",
            "AS",
            "BOTTOM",
            "BROKERSCOPE",
            "COLLAPSED",
            "COMPONENT",
        ),
        *("CREATE", "DEFINE", "DEL", "DELIVERY", "DEPLOY", "DO", "DROP", "FROM", "HUB", "IF", "IMPOSE"),
        *("INTEGRATED", "INTERFACES", "INTERNAL", "JOIN", "LEAVE", "MAP", "MEMBER", "MEMBERS", "PUBLISHING"),
        *(
            "ROLES",
            "SET",
            "SINCE",
            "SUPERSCOPE",
            "SUPERSCOPES",
            "TO",
            "TOP",
            "TRAVERSE",
            "UPDATE",
            "WHEN",
            "WHERE",
        ),
    )
)
"""Words that begin or end a clause: a component of such a name stands in backquotes."""

ACTIONS: Final = ("ALTER", "CREATE", "JOIN", "LEAVE")
"""The actions of rules: a list inside of an action ends where the next action begins."""

_COMMENT: Final = re.compile(
    r'("(?:[^"\\\n]|\\.)*")|(`(?:[^`\\]|\\.)*`)|(--[^\n]*|(?:^|(?<=\s))#[^\n]*)', re.MULTILINE
)
_JOINED: Final = re.compile(r"[^\W\d][\w.]*(?:-\w+)*(?:#[0-9]+)?")
_WORDS: Final = {"AND": "and", "OR": "or", "NOT": "not"}
T = TypeVar("T")


def _without_comments(source: str) -> str:
    return _COMMENT.sub(lambda found: " " * len(found[0]) if found[3] else found[0], source)


class _EmbeddedFilter(Parser):
    """The parser of filters, over tokens of a larger text."""

    __slots__ = ()

    def __init__(self, words: Words, *, joined: bool) -> None:
        super().__init__("", words.schema)
        self.source = words.source
        lists = words.joined if joined else words.plain
        self.kinds, self.texts, self.starts = lists
        if joined not in words.closings:
            words.closings[joined] = self.matched()
        self.closings = words.closings[joined]
        self.at = bisect_left(self.starts, words.starts[words.at])

    def refused(self, what: str, start: int, *, hint: str | None = None) -> FilterError:
        return FilterError(str(ScopeSyntaxError.at(self.source, start, what)), hint=hint)


class _Condition(_EmbeddedFilter):
    """A filter about components: the tests of their interfaces and roles are atoms of it."""

    __slots__ = ("words",)

    def __init__(self, words: Words) -> None:
        super().__init__(words, joined=True)
        self.words = words

    def atom(self) -> Filter:
        word = self.texts[self.at].upper()
        following = self.texts[self.at + 1].upper()
        if word == "IS" and following == "ROLE":
            self.at += 2
            self.expect("(")
            role = self.located(self.starts[self.at], name_in, self.texts[self.at])
            if self.kinds[self.at] != NAME:
                raise self.unexpected(("the name of a role",))
            self.at += 1
            self.expect(")")
            return IsRole(role)
        if word == "HAS" and following in ("INPUT", "OUTPUT"):
            self.at += 1
            word, following = following, self.texts[self.at + 1]
        if word in ("INPUT", "OUTPUT") and following == "(":
            words = self.words
            words.at = self.at
            found = HasInterface(word == "OUTPUT", words.interface_filter())
            self.at = words.at
            return found
        return super().atom()


class Words(Reader):
    """A reader of scope graphs: keywords in any case, names, and embedded filters."""

    __slots__ = ("closings", "joined", "plain", "schema")

    def __init__(self, source: str, schema: Schema | None = None) -> None:
        if len(source) > LENGTH_MAX:
            raise ScopeSyntaxError.at(source, LENGTH_MAX, f"a text has at most {LENGTH_MAX} characters")
        self.source = source
        self.schema = schema
        cleaned = _without_comments(source)
        kinds, texts, starts = tokens(cleaned)
        texts = [
            _WORDS.get(text, text) if kind == NAME else text for kind, text in zip(kinds, texts, strict=True)
        ]
        self.plain = (kinds, texts, starts)
        self.joined = _joined(cleaned, kinds, texts, starts)
        self.kinds, self.texts, self.starts = self.joined
        self.closings: dict[bool, dict[int, tuple[int, bool]]] = {}
        self.at = 0

    # -- words ---------------------------------------------------------------------------------------------------

    def word(self, ahead: int = 0) -> str:
        """The next word in capitals; empty if a name in backquotes, a sign or a value is next."""
        number = min(self.at + ahead, len(self.kinds) - 1)
        text = self.texts[number]
        return text.upper() if self.kinds[number] == NAME and text[0] != "`" else ""

    def sign(self, sign: str, ahead: int = 0) -> bool:
        """Whether a sign is next."""
        return self.texts[min(self.at + ahead, len(self.texts) - 1)] == sign

    def took(self, *words: str) -> bool:
        """Consume these keywords, if they are next. True if they were."""
        if any(self.word(number) != word for number, word in enumerate(words)):
            return False
        self.at += len(words)
        return True

    def demand(self, *words: str) -> None:
        """Consume these keywords; an error if others are next."""
        for word in words:
            if not self.took(word):
                raise self.unexpected((word,))

    def symbol(self, what: str = "a name") -> str:
        """The name of a component or of something in a definition."""
        if self.kinds[self.at] != NAME:
            raise self.unexpected((what,))
        if self.word() in KEYWORDS:
            raise self.unexpected(
                (what,), hint=f"a component of this name is written `{self.texts[self.at]}`"
            )
        found = name_in(self.texts[self.at])
        self.at += 1
        return found

    def several(self, read: Callable[[], T]) -> list[T]:
        """One or more, with commas between them."""
        found = [read()]
        while self.sign(",") and (read == self.action or self.word(1) not in ACTIONS):
            self.at += 1
            found.append(read())
        return found

    def action(self) -> Any:
        """The action of a rule; the parser defines it."""
        raise NotImplementedError(f"{type(self).__name__} must read the actions of rules")

    def whole(self, what: str = "a whole number") -> int:
        """A whole number that is not negative."""
        digits = self.texts[self.at]
        if self.kinds[self.at] != NUMBER or not digits.isdecimal() or len(digits) > 18:
            raise self.unexpected((what,))
        self.at += 1
        return int(digits)

    # -- filters in place ----------------------------------------------------------------------------------------

    def condition(self) -> Filter:
        """A filter about components, up to the first token that cannot belong to it."""
        parser = _Condition(self)
        found = self._translated(parser.boolean)
        self.at = parser.at
        return found

    def plain_filter(self) -> Filter:
        """A filter about notifications, up to the first token that cannot belong to it."""
        parser = self.filter_parser()
        found = self._translated(parser.boolean)
        self.go_on_behind(parser)
        return found

    def filter_parser(self) -> Parser:
        """The parser of filters, at the token here."""
        return _EmbeddedFilter(self, joined=False)

    def go_on_behind(self, parser: Parser) -> None:
        """Go on where the parser of filters has stopped."""
        self.at = bisect_left(self.starts, parser.starts[parser.at])

    def in_parentheses(self) -> Filter:
        """A filter about notifications between parentheses."""
        self.expect("(")
        found = self.plain_filter()
        self.expect(")", "and", "or")
        return found

    def interface_filter(self) -> Filter:
        """`INPUT(…)` or `OUTPUT(…)`: 0, 1, or items with commas, which mean `or`."""
        self.at += 1
        self.expect("(")
        found = self.items()
        self.expect(")", ",")
        return found

    def items(self) -> Filter:
        """Types, topics, channels and filters, of which one has to match; 0 for none and 1 for everything."""
        for digit, filter in (("0", NOTHING), ("1", EVERYTHING)):
            if self.sign(digit) and self.sign(")", 1):
                self.at += 1
                return filter
        items = self.several(self._item)
        joined = items[0]
        for item in items[1:]:
            joined = joined | item
        return joined

    def _item(self) -> Filter:
        if self.kinds[self.at] == NAME and self.texts[self.at + 1] in (",", ")"):
            name = name_in(self.texts[self.at])
            if name not in ("true", "false"):
                found = self._made(f"type is {quote_name(name)}")
                self.at += 1
                return found
        if self.word() == "CHANNEL" and self.kinds[self.at + 1] == NAME:
            self.at += 1
            return self._made(f'channel = "{self.symbol("the name of a channel")}"')
        topic = self._topic()
        return topic or self.plain_filter()

    def _topic(self) -> Filter | None:
        """A topic such as /quotes/**; what has a bracket or a double slash is a path of the filter language."""
        found = re.compile(r"/[\w*-]+(?:/[\w*-]+)*(?=\s*[,)])").match(self.source, self.starts[self.at])
        if found is None:
            return None
        made = self._made(f'topic matches "{found[0][1:]}"')
        self.at = bisect_left(self.starts, found.end())
        return made

    def _made(self, text: str) -> Filter:
        """A filter that stands for a shorter spelling here."""
        parser = Parser(text, self.schema)
        return self.located(self.starts[self.at], parser.whole)

    def expect(self, sign: str, *others: str, hint: str | None = None) -> None:
        """Step over a sign; `others` are what might have stood here as well."""
        if self.texts[self.at] != sign:
            raise self.unexpected((sign, *others), hint=hint)
        self.at += 1

    # -- complaints ----------------------------------------------------------------------------------------------

    def _translated(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except FilterSyntaxError as error:
            raise self._scope_error(error) from None
        except FilterError as error:
            raise ScopeError(str(error).removesuffix(f"\n  hint: {error.hint}"), hint=error.hint) from None

    def _scope_error(self, error: FilterSyntaxError) -> ScopeSyntaxError:
        if isinstance(error, ScopeSyntaxError):
            return error
        message = (
            str(error).removesuffix(f"\n  hint: {error.hint}").replace("the filter ends", "the text ends")
        )
        return ScopeSyntaxError(
            message,
            line=error.line,
            column=error.column,
            expected=error.expected,
            source=error.source,
            hint=error.hint,
        )

    def unexpected(self, expected: tuple[str, ...], *, hint: str | None = None) -> FilterSyntaxError:
        """The error that the next token is none of those expected."""
        if self.kinds[self.at] == END:
            return self.problem("the text ends too early", self.starts[self.at], expected=expected, hint=hint)
        return self._scope_error(super().unexpected(expected, hint=hint))

    def spelling(self) -> str | None:
        return None

    def refused(self, what: str, start: int, *, hint: str | None = None) -> FilterError:
        raise ScopeError(str(ScopeSyntaxError.at(self.source, start, what)), hint=hint)

    def problem(
        self, what: str, start: int, *, expected: tuple[str, ...] = (), hint: str | None = None
    ) -> FilterSyntaxError:
        return ScopeSyntaxError.at(self.source, start, what, expected=expected, hint=hint)


def _joined(
    source: str, kinds: list[str], texts: list[str], starts: list[int]
) -> tuple[list[str], list[str], list[int]]:
    """The tokens with words that have hyphens, or the number of an instance, as one name each."""
    made: tuple[list[str], list[str], list[int]] = ([], [], [])
    at = 0
    while at < len(kinds):
        kind, text, start = kinds[at], texts[at], starts[at]
        step = 1
        if kind == NAME and texts[at + 1 : at + 2] in (["-"], ["#"]):
            found = _JOINED.match(source, start)
            if found is not None and found.end() > start + len(text):
                step = bisect_left(starts, found.end()) - at
                text = (
                    f"`{found[0]}`"
                    if "." not in found[0]
                    else ".".join(f"`{s}`" for s in found[0].split("."))
                )
        made[0].append(kind)
        made[1].append(text)
        made[2].append(start)
        at += step
    return made
