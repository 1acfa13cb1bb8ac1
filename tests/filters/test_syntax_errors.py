"""A text that means no filter is refused with its place; nothing else ever happens to a reader."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import FilterError, FilterSyntaxError
from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.filter import Filter
from fairlead.filters.language import parse, render
from fairlead.filters.paths import Path, Selection
from fairlead.filters.schema import Schema
from fairlead.filters.terms import Position
from fairlead.testing import filters

PIECES = (
    *"()[]{},.*/+-=<>!~@#&|'\"`\\",
    *(
        "a",
        "b.c",
        "`d e`",
        "1",
        "2.5",
        "1e3",
        "-1",
        '"s"',
        't"2024-05-01T10:00:00Z"',
        'x"0f"',
        "//",
        "<=",
        "!=",
    ),
    *(
        "and",
        "or",
        "not",
        "in",
        "is",
        "exists",
        "absent",
        "true",
        "false",
        "null",
        "count",
        "misses",
        "tuple",
    ),
    *(
        "prefix",
        "matches",
        "by",
        "subset",
        "contains",
        "point",
        "interval",
        "rectangle",
        "number",
        "quote.id",
    ),
    *("set<=", "unifies", "&&", "//cpu", "[@a = 1]", "( 1 , * )", "in [1, 2)", "a = 1", "x + 1", "\n", "NaN"),
)


def refusal(text: str, schema: Schema | None = None) -> FilterSyntaxError | FilterError:
    with pytest.raises((FilterSyntaxError, FilterError)) as caught:
        parse(text, schema)
    return caught.value


def complaint(text: str) -> FilterSyntaxError | FilterError | None:
    """Why a text is refused; None if it is a filter. Any other error is passed on."""
    try:
        parse(text)
    except (FilterSyntaxError, FilterError) as error:
        return error
    return None


# -- whatever the text -------------------------------------------------------------------------------------


@settings(max_examples=400)
@given(st.lists(st.sampled_from(PIECES), max_size=14), st.sampled_from(("", " ")))
def test_any_row_of_tokens_is_a_filter_or_is_refused(pieces: list[str], between: str) -> None:
    try:
        filter = parse(between.join(pieces))
    except (FilterSyntaxError, FilterError):
        return
    assert parse(render(filter)) == filter


@given(st.text())
def test_any_text_is_a_filter_or_is_refused(text: str) -> None:
    complaint(text)


@given(filters(templates=True, paths=True, polynomials=True, methods=True, extensions=True), st.data())
def test_a_damaged_filter_is_a_filter_or_is_refused(filter: Filter, data: st.DataObject) -> None:
    text = render(filter)
    first = data.draw(st.integers(0, len(text)))
    last = data.draw(st.integers(first, min(len(text), first + 3)))
    complaint(text[:first] + data.draw(st.sampled_from(("", *PIECES))) + text[last:])


@given(st.lists(st.sampled_from(PIECES), max_size=8))
def test_the_caret_stands_below_the_place_that_is_named(pieces: list[str]) -> None:
    text = " ".join(pieces)
    error = complaint(text)
    if isinstance(error, FilterSyntaxError):
        said, shown, caret = str(error).split("\n")[:3]
        assert said.startswith(f"line {error.line}, column {error.column}: ")
        line = text.split("\n")[error.line - 1]
        if len(line) <= 100:  # of longer ones a part is shown
            assert shown == "  " + line
            assert caret.index("^") == error.column + 1


# -- what the error says -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("", 1, 1, "ends too early"),
        ("price > ", 1, 9, "ends too early; expected a value"),
        ("price > 10 and", 1, 15, "expected a constraint"),
        ("price > 10\nand\n  volume >", 3, 11, "ends too early"),
        ("price 10", 1, 7, "unexpected 10; expected ="),
        ("(a = 1", 1, 7, "expected and, or or )"),
        ("a = 1)", 1, 6, "expected and, or or the end"),
        ("a = 1 b = 2", 1, 7, "expected and, or or the end"),
        ("x in 5", 1, 6, "expected [, (, { or rectangle"),
        ("x in [1 2]", 1, 9, "expected ,"),
        ("x in [1, 2", 1, 11, "expected ] or )"),
        ("x in {1, 2", 1, 11, "expected } or ,"),
        ('a = "x', 1, 5, "does not end"),
        ("`a = 1", 1, 1, "does not end"),
        (r'a = "\q"', 1, 6, "no such escape"),
        (r'a = "\ud800"', 1, 6, "lone surrogate"),
        (r'a = "\u{110000}"', 1, 6, "beyond the last character"),
        ("//cpu[clock > 3]", 1, 7, "expected @"),
        ("//cpu[@a < @b]", 1, 12, "expected a value"),
        ("//cpu[@a = 1", 1, 13, "expected ], and or or"),
        ("count(cpu) = 1", 1, 7, "expected / or //"),
        ("/ = 1", 1, 3, "expected the name of an element or *"),
        ("exists", 1, 7, "expected a name"),
        ("quote.id(1) = 1", 1, 10, "expected )"),
        ("flags set<= 3", 1, 13, "expected a string or bytes"),
        ("(x + 1 = 3", 1, 11, "expected and, or or )"),
        ("tuple[a] = 1", 1, 7, "expected a position"),
        ("x = (1 + 2", 1, 11, "expected ), +, -, * or /"),
        ("a = \ud800", 1, 5, "lone surrogate"),
    ],
)
def test_a_syntax_error_names_line_and_column_and_what_was_expected(
    text: str, line: int, column: int, says: str
) -> None:
    error = refusal(text)
    assert isinstance(error, FilterSyntaxError)
    assert (error.line, error.column) == (line, column)
    assert says in str(error)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a == 1", "write ="),
        ("a <> 1", "write !="),
        ("a => 1", "write >="),
        ("a =< 1", "write <="),
        ("a = 1 && b = 2", "write and"),
        ("a = 1 || b = 2", "write or"),
        ("! a = 1", "write not"),
        ("a = 1 AND b = 2", "write and"),
        ("NOT (a = 1)", "write not"),
        ('a PREFIX "x"', "write prefix"),
        ("a = 'x'", "double quotes"),
        ("a = “x”", "double quotes"),
        ("symbol = IBM", 'in quotes: "IBM"'),
        ("symbol in {IBM}", 'in quotes: "IBM"'),
        ("quote.id() = IBM", 'in quotes: "IBM"'),
        ("symbol != IBM", "symbol - IBM = 0"),
        ("halted", "halted = true"),
        ('a perfix "x"', "did you mean prefix"),
        ("x = .5", "begins with a digit"),
        ("x = NaN", "exists x"),
        ("x < Infinity", "exists x"),
        ("x in {nan}", "exists x"),
        ("x is null", "= null"),
        ('type is "Quote"', "without quotes: Quote"),
        ("null = 1", "`null`"),
        ("x != null", "exists x and not x = null"),
        ("x / y = 1", "multiply"),
        ("", "true"),
        ("exists 2 * x", "x is number"),
    ],
)
def test_an_error_says_what_to_write_instead(text: str, hint: str) -> None:
    assert hint in (refusal(text).hint or "")


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("x - x = 0", 7, "constants"),
        ("1 < 2", 3, "constants"),
        ("x / 0 = 1", 3, "division by zero"),
        ("x / (y - y) = 1", 3, "division by zero"),
        ("x in [5, 3]", 3, "not in order"),
        ("x < true", 3, "boolean"),
        ("x + y = 1 and x + y in {1, true}", 21, "boolean"),
        ("x not in {}", 3, "names no kind"),
        ("count(//a) = 1.5", 12, "whole numbers"),
        ("x = {1, {2}}", 9, "not sets"),
        ("x = point(1)", 5, "takes 2 numbers"),
        ("x = interval(2, 1)", 5, "holds nothing"),
        ('x = t"yesterday"', 5, "not an instant"),
        ('x = x"0"', 5, "not bytes"),
        ('x matches "a*"', 11, "wildcard"),
        ('x matches "a" by "//"', 11, "separator"),
        ('x ~ "(a"', 5, "regular expression"),
        ('x unifies "f("', 11, "not a term"),
        ("@quotes(1)", 1, "no filter class is named quotes"),
        ("@instance(1)", 1, "takes the name"),
        ("quote.id() + 1 = 2", 12, "computed"),
        ("1 + quote.id() = 2", 5, "computed"),
        ("x + y prefix 1", 7, "computed"),
        ("x * x * x * x * x * x * x * x * x = 1", 31, "more than 8"),
        ("`` = 1", 1, "not an attribute's name"),
        ("x = " + "9" * 20_000, 5, "digits"),
        ("x = 1e99999", 5, "digits"),
        ("x = 1e" + "9" * 30, 5, "digits"),
    ],
)
def test_a_filter_that_means_nothing_is_refused_with_its_place(text: str, column: int, says: str) -> None:
    error = refusal(text)
    assert isinstance(error, FilterError)
    assert str(error).startswith(f"line 1, column {column}: ")
    assert says in str(error)
    assert "^" in str(error)


def test_an_unknown_type_is_named_with_those_that_are_near() -> None:
    schema = Schema(types={"StockQuote": (), "Trade": ()})
    error = refusal("type is StockQoute", schema)
    assert isinstance(error, FilterError)
    assert "StockQoute" in str(error)
    assert "StockQuote" in (error.hint or "")


def test_an_unknown_operator_lists_those_there_are() -> None:
    error = refusal("a equals 1")
    assert isinstance(error, FilterSyntaxError)
    assert {"=", "not in", "matches", "unifies", "&&"} <= set(error.expected)


def test_a_filter_without_text_is_refused_when_it_is_written() -> None:
    class Odd(Filter):
        __slots__ = ()

    with pytest.raises(FilterError, match="no text for Odd"):
        render(Odd())
    inner = Selection(Path(((True, "cpu"),)), Constraint(Position(0), Op.EQ, 1))
    with pytest.raises(FilterError, match="about attributes"):
        render(Constraint(inner, Op.GE, 1))


# -- bounds ------------------------------------------------------------------------------------------------

HUGE = {
    "parentheses": "(" * 100_000 + "a = 1" + ")" * 100_000,
    "open parentheses": "(" * 100_000,
    "negations": "not " * 100_000 + "a = 1",
    "sums": "x + " + "(" * 100_000 + "1" + ")" * 100_000 + " = 1",
    "signs": "x = " + "-" * 100_000,
    "sets": "x in " + "{" * 100_000,
    "brackets": "//a" + "[" * 100_000,
    "alternating": "not (a = 1 or b = 1 and " * 10_000,
    "quotes": 'a = "' + '\\"' * 300_000,
    "backquotes": "`\\`" * 300_000,
    "spaces": " " * 900_000,
    "products": "*".join(["9"] * 400_000) + " * x = 1",
    "powers": "*".join(["(x + y)"] * 1_000) + " = 1",
    "terms": " + ".join(f"x{n}" for n in range(50_000)) + " = 1",
    "digits": "x = " + "1" * 999_000,
    "length": "x = 1 or " * 200_000,
}


@pytest.mark.parametrize("text", HUGE.values(), ids=HUGE)
def test_a_huge_text_is_refused(text: str) -> None:
    error = refusal(text)
    assert len(str(error)) < 2_000


def test_a_filter_that_nests_too_deeply_is_refused_with_its_place() -> None:
    text = "(a = 1 or b = 1 and " * 150 + "c = 1" + ")" * 150
    error = refusal(text)
    assert isinstance(error, FilterError)
    column = int(str(error).partition(":")[0].split()[-1])
    assert text[column - 1] == ")"
    assert "200 levels" in str(error)


def test_a_long_row_of_signs_is_computed_without_recursion() -> None:
    assert parse("x = " + "-" * 100_000 + "1") == parse("x = 1")
