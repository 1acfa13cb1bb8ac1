"""The text form of subscriptions: `parse` reads it, `render` writes it.

    subscription = [ name ":" ] conjunction { "or" conjunction }
    conjunction  = predicate { "and" predicate }
    predicate    = "true" | instance [ "(" filter ")" ] | attribute test | attribute comparator attribute
    instance     = type [ "[" index "]" ]
    attribute    = instance "." name
    comparator   = "=" | "!=" | "<" | "<=" | ">" | ">="

Names, values, filters and tests are those of the filter language, which also reads them: `T[1].a in {1, 2}` is
the filter `a in {1, 2}` on T[1]. T stands for T[1]. A type is one step of a name; in backquotes it may hold dots.
What stands before the colon, a name or a string, is what the subscription is called.

Law: `parse(render(S)) == S` for every subscription S, so `render(parse(t))` is the one canonical spelling of t.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from fairlead.correlation.fair.subscriptions import (
    MIRRORED,
    UNNAMED,
    Comparison,
    Conjunction,
    Instance,
    Predicate,
    Reference,
    Restriction,
    Subscription,
)
from fairlead.correlation.reading import FilterReader, render_prefix
from fairlead.errors import FilterSyntaxError
from fairlead.filters import And, Attribute, Constraint, Filter, Op, Schema
from fairlead.filters import render as render_filter
from fairlead.filters.language.lexer import END, NAME, NUMBER, QUOTED, name_in
from fairlead.filters.language.reader import CONSTANTS, SHAPES
from fairlead.filters.printing import text_of
from fairlead.filters.terms import RESERVED, quote_name, quote_step
from fairlead.model import check_name

__all__ = ["parse", "render"]

_COMPARATORS: Final = {op.value: op for op in MIRRORED}
_SUMS: Final = frozenset("+-*/")
_BEFORE_OPERANDS: Final = _SUMS | _COMPARATORS.keys() | {"("}
_CALCULATED: Final = (
    "two events are compared by attributes as they are; one may have any filter: A[1](x + 1 < y)"
)
_A_PREDICATE: Final = ("a predicate such as StockQuote[1].price > 10",)
_FIRST_STEP: Final = re.compile(rf"[^\W\d]\w*|{QUOTED.pattern}")
_PLAIN_TYPE: Final = re.compile(r"[^\W\d]\w*")


def parse(text: str, schema: Schema | None = None) -> Subscription:
    """The subscription of a text; FilterSyntaxError or FilterError, with the location, where it has none."""
    return _Parser(text, schema).whole()


class _Parser(FilterReader):
    """A reader that knows the grammar."""

    __slots__ = ()
    WHOLE: ClassVar = "subscription"

    def whole(self) -> Subscription:
        name = self.prefix()
        conjunctions = [self.conjunction()]
        while self.texts[self.at] == "or":
            self.at += 1
            conjunctions.append(self.conjunction())
        if self.kinds[self.at] != END:
            hint = _CALCULATED if self.texts[self.at] in _SUMS else None
            raise self.unexpected(("and", "or", "the end"), hint=hint)
        return self.located(0, Subscription.of, conjunctions, UNNAMED if name is None else name)

    def conjunction(self) -> Conjunction:
        start = self.starts[self.at]
        predicates = self.predicate()
        while self.texts[self.at] == "and":
            self.at += 1
            predicates += self.predicate()
        return self.located(start, Conjunction.of, predicates)

    def predicate(self) -> list[Predicate]:
        """The predicate here; the empty one is none."""
        word = self.texts[self.at]
        if word == "true":
            self.at += 1
            return []
        instance, name, start = self.operand()
        if name is None:
            if self.kinds[self.at] != "(":
                return [instance]
            begin = self.starts[self.at] + 1
            self.at = self.closing(self.at)
            if self.kinds[self.at] != ")":
                raise self.problem("this parenthesis is not closed", begin - 1, expected=(")",))
            self.at += 1
            return [Restriction(instance, self.filter(begin, self.starts[self.at - 1]))]
        sign = self.at
        op = _COMPARATORS.get(self.texts[sign])
        if op is not None and self.is_operand(sign + 1):
            self.at += 1
            return [self.comparison(Reference(instance, name), op)]
        self.at = self.test_end()
        self.check_alone(sign, self.at)
        return [Restriction(instance, self.filter(start, self.starts[self.at]))]

    def comparison(self, left: Reference, op: Op) -> Comparison:
        begun, word = self.starts[self.at], self.texts[self.at]
        instance, name, _ = self.operand()
        if name is None:
            hint = f'write a string in quotes: "{word}"; an attribute is {word}.name'
            raise self.problem(f"unexpected {word}", begun, expected=("a value", "an attribute"), hint=hint)
        return self.located(begun, Comparison, left, op, Reference(instance, name))

    def operand(self) -> tuple[Instance, str | None, int]:
        """An instance or its attribute, and where the attribute's name begins."""
        start, word = self.starts[self.at], self.texts[self.at]
        first = _FIRST_STEP.match(word) if self.kinds[self.at] == NAME and word not in RESERVED else None
        if first is None:
            raise self.no_predicate()
        self.at += 1
        type, rest, begin = name_in(first[0]), word[first.end() + 1 :], start + first.end() + 1
        index = 1
        if not rest and self.kinds[self.at] == "[":
            index = self.index()
            if self.kinds[self.at] == ".":
                self.at += 1
                if self.kinds[self.at] != NAME:
                    raise self.unexpected(("a name",))
                rest, begin = self.texts[self.at], self.starts[self.at]
                self.at += 1
        instance = self.located(start, Instance, type, index)
        return instance, self.attribute(rest, begin) if rest else None, begin

    def index(self) -> int:
        self.at += 1
        digits = self.texts[self.at]
        if self.kinds[self.at] != NUMBER or not digits.isdecimal() or len(digits) > 9:
            raise self.unexpected(("the number of an instance, such as 1",))
        self.at += 1
        self.expect("]")
        return int(digits)

    def attribute(self, spelled: str, start: int) -> str:
        if any("." in step for step in QUOTED.findall(spelled)):
            raise self.problem("a step of a name has no dots", start)
        return self.located(start, check_name, name_in(spelled))

    def is_operand(self, at: int) -> bool:
        """Whether an instance or an attribute stands at a token, rather than a value."""
        word = self.texts[at]
        is_shape = word in SHAPES and self.kinds[at + 1] == "("
        return self.kinds[at] == NAME and word not in CONSTANTS and not is_shape

    def test_end(self) -> int:
        """The token behind the test that stands here."""
        at = self.at
        while self.kinds[at] != END and self.texts[at] not in ("and", "or"):
            at = self.closing(at) if self.kinds[at] in ("(", "[", "{") else at
            at += self.kinds[at] != END
        return at

    def check_alone(self, begin: int, end: int) -> None:
        """FilterSyntaxError where a test names another attribute: it would be taken for one of the same event."""
        for at in range(begin + 1, end):
            if self.texts[at - 1] in _BEFORE_OPERANDS and self.is_operand(at):
                what = f"unexpected {self.texts[at]}"
                raise self.problem(what, self.starts[at], expected=("a value",), hint=_CALCULATED)

    # -- complaints ------------------------------------------------------------------------------------------

    def no_predicate(self) -> FilterSyntaxError:
        """The complaint that no predicate stands here."""
        word = self.texts[self.at]
        hint = None
        if word in ("(", "not"):
            hint = (
                "conjunctions are joined by or; what is about one instance may be any filter: T[1](not a = 1)"
            )
        elif word in ("exists", "absent"):
            hint = f"write T[1]({word} a)"
        elif word in RESERVED:
            hint = f"a type of this name is written `{word}`"
        elif self.kinds[self.at] == NUMBER:
            hint = "write the attribute on the left: T[1].a > 10"
        return self.unexpected(_A_PREDICATE, hint=hint)


@text_of.register
def render(subscription: Subscription | Conjunction) -> str:
    """The text of a subscription, or of a conjunction."""
    if isinstance(subscription, Subscription):
        prefix = "" if subscription.name == UNNAMED else render_prefix(subscription.name)
        return prefix + " or ".join(map(render, subscription.conjunctions))
    predicates = [text for each in subscription.restrictions for text in _restriction(each)]
    predicates += map(_comparison, subscription.comparisons)
    mentioned = {each.instance for each in subscription.restrictions}
    mentioned.update(side.instance for each in subscription.comparisons for side in (each.left, each.right))
    wildcards = (Instance(*each) for each in subscription.counts)
    return " and ".join([*(_instance(each) for each in wildcards if each not in mentioned), *predicates])


def _restriction(restriction: Restriction) -> list[str]:
    """A filter in the paper's form where it has one: constraints on attributes, each by itself."""
    filter, instance = restriction.filter, _instance(restriction.instance)
    parts = filter.parts if isinstance(filter, And) else (filter,)
    plain = [part for part in parts if _is_plain(part)]
    others = [part for part in parts if not _is_plain(part)]
    texts = [f"{instance}.{render_filter(part)}" for part in plain]
    return [*texts, f"{instance}({render_filter(And.of(others))})"] if others else texts


def _is_plain(filter: Filter) -> bool:
    return (
        isinstance(filter, Constraint)
        and isinstance(filter.term, Attribute)
        and filter.op not in (Op.EXISTS, Op.ABSENT)
    )


def _comparison(comparison: Comparison) -> str:
    left, right = (
        f"{_instance(side.instance)}.{quote_name(side.name)}" for side in (comparison.left, comparison.right)
    )
    return f"{left} {comparison.op.value} {right}"


def _instance(instance: Instance) -> str:
    type = instance.type
    is_plain = _PLAIN_TYPE.fullmatch(type) and type not in RESERVED
    return f"{type if is_plain else quote_step(type)}[{instance.index}]"
