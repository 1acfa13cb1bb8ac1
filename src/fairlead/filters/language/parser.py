"""From text to filters.

    filter      = conjunction { "or" conjunction }
    conjunction = negation { "and" negation }
    negation    = { "not" } ( "(" filter ")" | atom )
    atom        = "true" | "false" | ( "exists" | "absent" ) subject | subject test | method
                | path | "@" name "(" [ value { "," value } ] ")" | template | "some" name "(" filter ")"
    subject     = name | method | "tuple" "[" ( index | "#" ) "]" | ( "count" | "misses" ) "(" path ")" | sum
    test        = ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) ( value | sum ) | [ "not" ] "in" collection | …
    template    = "(" ( "*" | value | test ) "," … ")"

Words are contextual: only those that begin an atom are reserved. A parenthesis may open a filter, a sum or a
template; which one is seen from the comma inside it and from what follows its end, so nothing is ever read
twice. Boolean structure and sums are read with explicit stacks: no text, however deep, exhausts Python's.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from fairlead.errors import FilterSyntaxError
from fairlead.filters.constraint import KIND_NAMES, Constraint, Extended, Op, Range, TypeName
from fairlead.filters.extensions import filter_class, make, operators, registered_filters
from fairlead.filters.filter import DEPTH_MAX, EVERYTHING, NOTHING, And, Filter, Not, Or
from fairlead.filters.language.arithmetic import Sum, compared, presence, within
from fairlead.filters.language.lexer import BYTES, END, NAME, NUMBER, STRING, name_in
from fairlead.filters.language.reader import A_VALUE, CONSTANTS, NOT_NUMBERS, SHAPES, Reader, shape
from fairlead.filters.paths import Path, Selection
from fairlead.filters.patterns import RegularExpression, SubjectPattern
from fairlead.filters.terms import RESERVED, Attribute, Inspector, Length, Position, Term
from fairlead.model import TUPLE_MAX, Multi

if TYPE_CHECKING:
    from fairlead.filters.schema import Schema

__all__ = ["Parser", "parse"]

LENGTH_MAX: Final = 1_000_000
NESTING_MAX: Final = 20
"""The depth to which `some` may nest."""
COMPARISONS: Final = {op.value: op for op in (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE)}
_WITH_VALUE: Final = COMPARISONS | {
    op.value: op for op in (Op.PREFIX, Op.SUFFIX, Op.SUBSTRING, Op.CONTAINS, Op.LACKS)
}
_WITH_REGION: Final = {op.value: op for op in (Op.SUBSET, Op.SUPERSET, Op.DISJOINT, Op.OVERLAPS)}
OPERATORS: Final = (*_WITH_VALUE, *_WITH_REGION, "in", "not in", "matches", "~", "is")
_FIRST_WORDS: Final = frozenset(word.split()[0] for word in OPERATORS)
_PRESENCE: Final = {"exists": Op.EXISTS, "absent": Op.ABSENT}
_BINDING: Final = {"+": 1, "-": 1, "*": 2, "/": 2, "negate": 3}
_SIGNS: Final = frozenset("+-*/")
_AFTER_SUM: Final = _SIGNS | COMPARISONS.keys() | {"in"}
_FILTER, _SUM, _TEMPLATE = "filter", "sum", "template"
_A_CONSTRAINT: Final = ("a constraint such as price > 10", "not", "(")


def parse(text: str, schema: Schema | None = None) -> Filter:
    """Parse a filter. FilterSyntaxError or FilterError, with the location, if the text is none."""
    if len(text) > LENGTH_MAX:
        raise FilterSyntaxError.at(text, LENGTH_MAX, f"a filter has at most {LENGTH_MAX} characters")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FilterSyntaxError(
            f"character {error.start + 1}: a lone surrogate is no character", column=error.start + 1
        ) from None
    return Parser(text, schema).whole()


_NEARLY_KINDS: Final = {
    "absent": "write absent x",
    "bool": "the kind is boolean",
    "date": "the kind is time",
    "datetime": "the kind is time",
    "decimal": "the kind is number",
    "double": "the kind is number",
    "float": "the kind is number",
    "int": "the kind is number; a schema file declares whole numbers: price: int",
    "integer": "the kind is number; a schema file declares whole numbers: price: int",
    "list": "the kind is set, or array where it holds records",
    "nan": "nothing but exists is true of NaN",
    "str": "the kind is string",
    "text": "the kind is string",
    "timestamp": "the kind is time",
}
"""Words that would be types where none are declared, but are surely meant as kinds."""


class Parser(Reader):
    """A reader that knows the grammar."""

    __slots__ = ("closings", "extensions", "in_path", "nesting", "schema", "spelled")

    def __init__(self, source: str, schema: Schema | None) -> None:
        super().__init__(source)
        self.schema = schema
        self.in_path = False
        self.nesting = 0
        self.closings: dict[int, tuple[int, bool]] | None = None
        self.extensions = operators()
        self.spelled = _spelled(tuple(self.extensions))

    # -- Boolean structure -----------------------------------------------------------------------------------

    def whole(self) -> Filter:
        if self.kinds[0] == END:
            raise self.unexpected(_A_CONSTRAINT, hint="the filter that matches everything is: true")
        found = self.boolean()
        if self.kinds[self.at] != END:
            raise self.unexpected(("and", "or", "the end"))
        return found

    def boolean(self) -> Filter:
        """A filter, up to the first token that cannot belong to it."""
        texts = self.texts
        suspended: list[tuple[list[Filter], list[Filter], int]] = []
        alternatives: list[Filter] = []
        conjuncts: list[Filter] = []
        negations = depth = 0
        while True:
            word = texts[self.at]
            if word == "not" or (word == "(" and self.parenthesis() == _FILTER):
                depth += 1
                if depth > DEPTH_MAX:
                    raise self.problem(f"nested more than {DEPTH_MAX} levels deep", self.starts[self.at])
                if word == "not":
                    negations += 1
                else:
                    suspended.append((alternatives, conjuncts, negations))
                    alternatives, conjuncts, negations = [], [], 0
                self.at += 1
                continue
            part = self.atom()
            while True:
                for _ in range(negations):
                    part = self.located(self.starts[self.at], Not, part)
                depth -= negations
                negations = 0
                conjuncts.append(part)
                word = texts[self.at]
                if word == "and":
                    break
                alternatives.append(self.located(self.starts[self.at], And.of, conjuncts))
                conjuncts = []
                if word == "or":
                    break
                part = self.located(self.starts[self.at], Or.of, alternatives)
                if not suspended:
                    return part
                if word != ")":
                    raise self.unexpected(("and", "or", ")"))
                self.at += 1
                alternatives, conjuncts, negations = suspended.pop()
                depth -= 1
            self.at += 1

    def parenthesis(self) -> str:
        """The content of a parenthesis: a template, a sum or a filter."""
        if self.closings is None:
            self.closings = self.matched()
        if self.at not in self.closings:
            return _FILTER  # it is never closed, which is found out at the end
        closing, has_comma = self.closings[self.at]
        if has_comma:
            return _TEMPLATE
        after = self.texts[closing + 1]
        is_sum = after in _AFTER_SUM or (after == "not" and self.texts[closing + 2] == "in")
        return _SUM if is_sum else _FILTER

    def matched(self) -> dict[int, tuple[int, bool]]:
        """For each opening parenthesis where it is closed, and whether there is a comma directly in it."""
        closings: dict[int, tuple[int, bool]] = {}
        opened: list[int] = []
        commas: list[bool] = []
        for number, kind in enumerate(self.kinds):
            if kind in ("(", "[", "{"):
                opened.append(number)
                commas.append(False)
            elif kind in (")", "]", "}"):  # ranges may be half open: (a, b]
                if opened:
                    closings[opened.pop()] = (number, commas.pop())
            elif kind == "," and commas:
                commas[-1] = True
        return closings

    # -- atoms -----------------------------------------------------------------------------------------------

    def atom(self) -> Filter:
        kind, word = self.kinds[self.at], self.texts[self.at]
        if word in _PRESENCE:
            return self.presence(_PRESENCE[word])
        if word in ("true", "false"):
            self.at += 1
            return EVERYTHING if word == "true" else NOTHING
        if not self.in_path:
            if kind in ("/", "//"):
                start = self.starts[self.at]
                return self.located(start, Constraint, self.path(misses=False), Op.GE, 1)
            if kind == "@":
                return self.filter_object()
            if kind == "(" and self.parenthesis() == _TEMPLATE:
                return self.template()
            if self.begins_some():
                return self.some()
        subject = self.subject(_A_CONSTRAINT)
        if isinstance(subject, Inspector) and self.texts[self.at] in ("and", "or", ")", ""):
            return Constraint(subject, Op.EQ, True)
        return self.constraint(subject)

    def presence(self, op: Op) -> Filter:
        self.at += 1
        start = self.starts[self.at]
        subject = self.subject(("a name",))
        if isinstance(subject, Sum):
            return self.located(start, presence, subject, op)
        return Constraint(subject, op)

    def subject(self, expected: tuple[str, ...]) -> Term | Sum:
        """The left side of an operator."""
        kind, word = self.kinds[self.at], self.texts[self.at]
        if self.in_path:
            if kind != "@":
                raise self.unexpected(
                    ("@",), hint="within a path, constraints are about attributes: @clock >= 700"
                )
            self.at += 1
            return Attribute(self.name())
        if kind in (NUMBER, "-", "("):
            return self.sum()
        if kind != NAME:
            raise self.unexpected(expected)
        following = self.kinds[self.at + 1]
        if word in ("count", "misses") and following == "(":
            return self.counted()
        if word in RESERVED:
            raise self.unexpected(expected, hint=f"an attribute of this name is written `{word}`")
        if following in _SIGNS:
            return self.sum()
        if following == "(":
            return self.inspector()
        if following == "[" and word == "tuple":
            return self.position()
        return Attribute(self.name())

    def inspector(self) -> Inspector:
        start, word = self.starts[self.at], self.texts[self.at]
        holder, _, method = self.name().rpartition(".")
        if not holder:
            hint = (
                f"write {word.lower()}"
                if word.lower() in RESERVED
                else "a method is called on an attribute: quote.id()"
            )
            raise self.problem(f"{word}(…) is no method that can be called", start, hint=hint)
        self.expect("(")
        self.expect(")", hint="only methods without arguments can be called")
        if self.kinds[self.at] in _SIGNS:
            raise self.refused("what a method answers cannot be computed with", self.starts[self.at])
        return Inspector(holder, method)

    def position(self) -> Term:
        self.at += 2
        kind, digits = self.kinds[self.at], self.texts[self.at]
        if kind != "#" and not (kind == NUMBER and digits.isdecimal() and len(digits) < 10):
            raise self.unexpected(("a position such as 0", "#"))
        if kind == NUMBER and int(digits) >= TUPLE_MAX:
            raise self.problem(f"a tuple has at most {TUPLE_MAX:,} positions", self.starts[self.at])
        self.at += 1
        self.expect("]")
        return Length() if kind == "#" else Position(int(digits))

    def template(self) -> Filter:
        self.expect("(")
        start = self.starts[self.at]
        items: list[Filter] = []
        while self.texts[self.at] != ")":
            items.append(self.item(Position(len(items))))
            if self.texts[self.at] != ",":
                break
            self.at += 1
        self.expect(")", ",")
        if not items:
            raise self.problem("a template without positions", start)
        if len(items) > TUPLE_MAX:
            raise self.problem(f"a tuple has at most {TUPLE_MAX:,} positions", start)
        return self.located(start, And.of, [Constraint(Length(), Op.EQ, len(items)), *items])

    def item(self, position: Position) -> Filter:
        word = self.texts[self.at]
        if word == "*":
            self.at += 1
            return Constraint(position, Op.EXISTS)
        if word in _FIRST_WORDS or self.extension() is not None:
            return self.constraint(position, alone=True)
        start = self.starts[self.at]
        value = self.value(("*", "a value", "an operator"))
        return self.located(start, Constraint, position, Op.EQ, value)

    def begins_some(self) -> bool:
        """Whether a condition on elements is next, rather than an attribute with its name: some in (1, 2)."""
        at = self.at
        if self.texts[at] != "some" or (self.kinds[at + 1], self.kinds[at + 2]) != (NAME, "("):
            return False
        return self.texts[at + 1] not in _FIRST_WORDS

    def some(self) -> Filter:
        """A condition on one element of a list, a filter object with a spelling of its own."""
        start = self.starts[self.at]
        self.at += 1
        name = self.name()
        self.expect("(")
        self.nesting += 1
        if self.nesting > NESTING_MAX:
            raise self.problem(f"'some' nested more than {NESTING_MAX} levels deep", start)
        condition = self.boolean()
        self.nesting -= 1
        self.expect(")", "and", "or")
        class_: Any = filter_class("some")
        found: Filter = self.located(start, class_.filter, name, condition)
        return found

    def filter_object(self) -> Filter:
        start = self.starts[self.at]
        self.at += 1
        name = self.name()
        arguments = self.listed("(", ")", self.value)
        if name not in (known := registered_filters()):
            near = get_close_matches(name, known, 3) or sorted(known)
            raise self.refused(f"no filter class is named {name}", start, hint=f"there is {', '.join(near)}")
        try:
            return make(name, arguments)
        except Exception as error:  # whatever an extension raises, the filter is what cannot be made
            raise self.relocated(error, start) from error

    # -- paths -----------------------------------------------------------------------------------------------

    def path(self, *, misses: bool) -> Selection:
        start = self.starts[self.at]
        steps: list[tuple[bool, str]] = []
        while (kind := self.kinds[self.at]) in ("/", "//"):
            self.at += 1
            steps.append((kind == "//", self.step()))
        if not steps:
            raise self.unexpected(("/", "//"), hint="a path begins with / at the root or with // anywhere")
        condition: Filter = EVERYTHING
        if self.kinds[self.at] == "[":
            self.at += 1
            self.in_path = True
            condition = self.boolean()
            self.in_path = False
            self.expect("]", "and", "or")
        return self.located(start, lambda: Selection(Path(tuple(steps)), condition, misses))

    def step(self) -> str:
        kind, word = self.kinds[self.at], self.texts[self.at]
        if kind not in (NAME, "*") or word == "`*`":
            raise self.unexpected(("the name of an element", "*"))
        self.at += 1
        return name_in(word)

    def counted(self) -> Selection:
        misses = self.texts[self.at] == "misses"
        self.at += 2
        selection = self.path(misses=misses)
        self.expect(")")
        return selection

    # -- constraints -----------------------------------------------------------------------------------------

    def constraint(self, subject: Term | Sum, *, alone: bool = False) -> Filter:
        """The constraint on a subject whose operator is next; `alone`: in a template, without a name."""
        start, word = self.starts[self.at], self.texts[self.at]
        if (name := self.extension()) is not None:
            op, operand = Op.EXTENDED, self.extended(name)
        elif word in COMPARISONS:
            self.at += 1
            if isinstance(subject, Sum) or (not alone and self.begins_sum()):
                return self.comparison(subject, COMPARISONS[word], start)
            op, operand = COMPARISONS[word], self.value(A_VALUE)
        else:
            op, operand = self.test(subject)
        if isinstance(subject, Sum):
            if op not in (Op.IN, Op.NOT_IN, Op.IN_RANGE, Op.NOT_IN_RANGE):
                raise self.refused(f"{word!r} does not take numbers that are computed", start)
            return self.located(start, within, subject, op, operand)
        found: Constraint = self.located(start, Constraint, subject, op, operand)
        if isinstance(subject, Selection):
            self.check_count(found, start)
        return found

    def begins_sum(self) -> bool:
        """Whether a sum is next, rather than one value."""
        at, kinds = self.at, self.kinds
        kind = kinds[at]
        if kind == NUMBER:
            return kinds[at + 1] in _SIGNS
        if kind == NAME:
            word = self.texts[at]
            is_value = word in CONSTANTS or (kinds[at + 1] == "(" and word in SHAPES)
            return not is_value
        return kind == "(" or (kind == "-" and (kinds[at + 1] != NUMBER or kinds[at + 2] in _SIGNS))

    def comparison(self, subject: Term | Sum, op: Op, start: int) -> Filter:
        """The comparison of a subject with a sum."""
        word, kind = self.texts[self.at], self.kinds[self.at]
        is_word = kind == NAME and self.kinds[self.at + 1] not in _SIGNS
        if is_word and word.lower() in NOT_NUMBERS:
            raise self.refused(
                f"a filter cannot compare with {word}", self.starts[self.at], hint="exists x, or x is number"
            )
        if not isinstance(subject, Attribute | Sum) or self.in_path:
            raise self.unexpected(A_VALUE, hint=f'write a string in quotes: "{word}"' if is_word else None)
        if (
            is_word
            and isinstance(subject, Attribute)
            and op in (Op.EQ, Op.NE)
            and self.kinds[self.at + 1] != "("
        ):
            # Two attributes are compared as numbers only: symbol = IBM would silently match nothing.
            raise self.unexpected(
                A_VALUE,
                hint=f'write a string in quotes: "{word}"; two numbers are equal if {subject} - {word} = 0',
            )
        left = Sum.attribute(subject.name) if isinstance(subject, Attribute) else subject
        right = self.sum()
        return self.located(start, compared, left, op, right)

    def test(self, subject: Term | Sum) -> tuple[Op, Any]:
        """An operator and what it takes."""
        word = self.texts[self.at]
        negated = word == "not" and self.texts[self.at + 1] == "in"
        if self.kinds[self.at] != NAME and word != "~":
            raise self.no_operator(subject)
        if word not in _FIRST_WORDS or (word == "not" and not negated):
            raise self.no_operator(subject)
        self.at += 1 + negated
        if word == "in" or negated:
            return self.collection(negated=negated)
        if word in _WITH_VALUE:
            return _WITH_VALUE[word], self.value(A_VALUE)
        if word in _WITH_REGION:
            return _WITH_REGION[word], self.region()
        if word == "is":
            return Op.IS, self.type_or_kind(subject)
        if word == "matches":
            return Op.MATCHES, self.subject_pattern()
        return Op.LIKE, self.regular_expression()

    def collection(self, *, negated: bool) -> tuple[Op, Any]:
        """The operand of `in`: a set, a rectangle, or a range."""
        kind = self.kinds[self.at]
        if kind in ("[", "("):
            return Op.NOT_IN_RANGE if negated else Op.IN_RANGE, self.range()
        if kind != "{" and self.texts[self.at] != "rectangle":
            raise self.unexpected(("[", "(", "{", "rectangle"))
        return Op.NOT_IN if negated else Op.IN, self.value()

    def range(self) -> Range:
        opening = self.texts[self.at]
        self.at += 1
        low = self.value()
        self.expect(",")
        high = self.value()
        closing = self.kinds[self.at]
        if closing not in ("]", ")"):
            raise self.unexpected(("]", ")"))
        self.at += 1
        return Range(low, high, opening == "[", closing == "]")

    def region(self) -> Any:
        """The operand of `subset` and its like: a set, an interval or a rectangle."""
        if self.kinds[self.at] != "[":
            return self.value(("{", "[", "interval", "rectangle"))
        start = self.starts[self.at]
        ends = self.listed("[", "]", self.number)
        return self.located(start, shape, "interval", ends)

    def type_or_kind(self, subject: Term | Sum) -> Any:
        start, word = self.starts[self.at], self.texts[self.at]
        if word == "null":
            raise self.unexpected(("a type",), hint="write = null")
        if self.kinds[self.at] == STRING:
            raise self.unexpected(("a type",), hint=f"types are names, without quotes: {word[1:-1]}")
        name = self.name()
        if name in KIND_NAMES:
            return KIND_NAMES[name]
        if self.schema is None or not self.schema.has_types:
            if name in _NEARLY_KINDS:
                raise self.refused(f"{name} is no kind of value", start, hint=_NEARLY_KINDS[name])
            if subject != Attribute("type") and (near := get_close_matches(name.lower(), KIND_NAMES, 1)):
                raise self.refused(f"{name} is no kind of value", start, hint=f"did you mean {near[0]}?")
            return TypeName(name, frozenset({name}))
        return TypeName(name, self.located(start, self.schema.type_members, name))

    def subject_pattern(self) -> SubjectPattern:
        start = self.starts[self.at]
        pattern, separator = self.string(), "/"
        if self.texts[self.at] == "by":
            self.at += 1
            separator = self.string()
        return self.located(start, SubjectPattern, pattern, separator)

    def regular_expression(self) -> RegularExpression:
        start = self.starts[self.at]
        return self.located(start, RegularExpression, self.string())

    def check_count(self, constraint: Constraint, start: int) -> None:
        """Check that the number of elements that a path selects is compared with a whole number."""
        match constraint.op, constraint.operand:
            case ((Op.EQ | Op.NE | Op.LT | Op.LE | Op.GT | Op.GE), int()):
                return
            case ((Op.IN_RANGE | Op.NOT_IN_RANGE), Range(int(), int())):
                return
            case ((Op.IN | Op.NOT_IN), Multi() as elements) if all(type(each) is int for each in elements):
                return
        raise self.refused("the number of elements is compared with whole numbers", start)

    # -- operators of extensions -----------------------------------------------------------------------------

    def extension(self) -> str | None:
        """The longest name of a registered operator that is next."""
        found = self.spelled.match(self.source, self.starts[self.at])
        return found[0] if found and self.token_at(found.end()) is not None else None

    def token_at(self, offset: int) -> int | None:
        """The number of the first token from an offset on, or None where that is within a token."""
        number = bisect_left(self.starts, offset)
        ends = self.starts[number - 1] + len(self.texts[number - 1])
        return number if ends <= offset else None

    def extended(self, name: str) -> Extended:
        after = self.token_at(self.starts[self.at] + len(name))
        assert after is not None, "the operator was found to end with a token"
        self.at = after
        start = self.starts[self.at]
        if self.kinds[self.at] not in (STRING, BYTES):
            raise self.unexpected(("a string", "bytes"))
        literal = self.value()
        check = getattr(self.extensions[name], "check", None)
        if check is not None:
            self.located(start, check, literal)
        return Extended(name, literal)

    # -- arithmetic ------------------------------------------------------------------------------------------

    def sum(self) -> Sum:
        """An arithmetic expression, up to the first token that cannot belong to it."""
        values: list[Sum] = []
        pending: list[tuple[str, int]] = []
        opened = 0
        while True:
            word = self.texts[self.at]
            if word in ("-", "("):
                opened += word == "("
                if opened > DEPTH_MAX:
                    raise self.problem(f"nested more than {DEPTH_MAX} levels deep", self.starts[self.at])
                pending.append(("negate" if word == "-" else word, self.starts[self.at]))
                self.at += 1
                continue
            values.append(self.factor())
            while self.texts[self.at] == ")" and opened:
                self.compute(values, pending, 0)
                pending.pop()
                opened -= 1
                self.at += 1
            word = self.texts[self.at]
            if word not in _SIGNS:
                break
            self.compute(values, pending, _BINDING[word])
            pending.append((word, self.starts[self.at]))
            self.at += 1
        if opened:
            raise self.unexpected((")", "+", "-", "*", "/"))
        self.compute(values, pending, 0)
        return values[0]

    def compute(self, values: list[Sum], pending: list[tuple[str, int]], binding: int) -> None:
        """Do what was put off and binds at least as tightly, back to the last open parenthesis."""
        while pending and pending[-1][0] != "(" and _BINDING[pending[-1][0]] >= binding:
            sign, start = pending.pop()
            right = values.pop()
            if sign == "negate":
                values.append(-right)
            else:
                values.append(self.located(start, _COMPUTE[sign], values.pop(), right))

    def factor(self) -> Sum:
        kind, word, start = self.kinds[self.at], self.texts[self.at], self.starts[self.at]
        if kind == NUMBER:
            return self.located(start, Sum.number, self.number())
        if kind == NAME and word not in RESERVED:
            name = self.name()
            if self.kinds[self.at] == "(":
                raise self.refused("what a method answers cannot be computed with", start)
            return Sum.attribute(name)
        raise self.unexpected(("a number", "a name"))

    # -- complaints ------------------------------------------------------------------------------------------

    def no_operator(self, subject: Term | Sum) -> FilterSyntaxError:
        """The error that no operator is next."""
        kind, word = self.kinds[self.at], self.texts[self.at]
        names = (*OPERATORS, *self.extensions)
        if kind == NAME and word not in ("and", "or"):
            near = get_close_matches(word.lower(), names, 1)
            hint = self.spelling() or (f"did you mean {near[0]}?" if near else None)
            return self.problem(f"unknown operator {word}", self.starts[self.at], expected=names, hint=hint)
        is_bare = isinstance(subject, Attribute) and not self.in_path
        return self.unexpected(
            names, hint=f"write {subject} = true, or exists {subject}" if is_bare else None
        )


_COMPUTE: Final[dict[str, Callable[[Sum, Sum], Sum]]] = {
    "+": Sum.__add__,
    "-": Sum.__sub__,
    "*": Sum.__mul__,
    "/": Sum.__truediv__,
}


@lru_cache(maxsize=16)
def _spelled(names: tuple[str, ...]) -> re.Pattern[str]:
    """The operators as they may stand in the text, longest first; a word must end where it ends."""
    if not names:
        return re.compile(r"(?!)")
    longest = sorted(names, key=len, reverse=True)
    return re.compile(
        "|".join(re.escape(name) + (r"(?!\w)" if name[-1:].isalnum() else "") for name in longest)
    )
