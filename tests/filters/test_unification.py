"""Unification of terms: `x unifies "f(_X, 5)"`."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import FilterError
from fairlead.filters.constraint import Constraint, Extended, Op
from fairlead.filters.extensions import constraint_covers, constraint_overlaps, operator_named
from fairlead.filters.extensions.unification import LENGTH_MAX, Expression, is_instance, unify
from fairlead.filters.terms import Attribute

X = Attribute("x")


def unifies(literal: str) -> Constraint:
    return Constraint(X, Op.EXTENDED, Extended("unifies", literal))


def holds(one: str, other: str) -> bool:
    return operator_named("unifies").holds(one, other)


# -- the report's examples -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "unifiable"),
    [
        ("f(g(y,5))", "f(g(_X,_Y))", True),
        ("_X", "_Y", True),
        ("a(_X,b(c(_X)))", 'a(g("h"),b(c(g(_Y))))', True),
        ("a(_X,_X)", "a(f,g)", False),
    ],
)
def test_the_examples_of_table_2(one: str, other: str, unifiable: bool) -> None:
    assert holds(one, other) == holds(other, one) == unifiable


def test_one_way_unification_with_equated_variables_is_not_covering() -> None:
    """By the report f(_X, _X) unifies one way with f(_Y, _Z), both _Y and _Z taking the value of _X. Yet:"""
    assert holds("f(1, 2)", "f(_Y, _Z)")
    assert not holds("f(1, 2)", "f(_X, _X)")
    assert not constraint_covers(unifies("f(_X, _X)"), unifies("f(_Y, _Z)"))
    assert constraint_covers(unifies("f(_Y, _Z)"), unifies("f(_X, _X)"))


def test_renaming_variables_changes_nothing() -> None:
    assert constraint_covers(unifies("f(_X, _X, _Y)"), unifies("f(_B, _B, _A)"))
    assert constraint_covers(unifies("f(_B, _B, _A)"), unifies("f(_X, _X, _Y)"))


def test_variables_are_local_to_their_expression() -> None:
    assert holds("f(_X, 1)", "f(2, _X)")


def test_a_term_never_unifies_with_a_part_of_itself() -> None:
    assert not holds("f(_X, _X)", "f(_Y, g(_Y))")
    assert not holds("f(_X, g(_X))", "f(_Y, _Y)")
    assert holds("f(_X, _Y)", "f(g(_A), _A)")


def test_two_unifications_always_overlap_because_a_variable_is_a_value_too() -> None:
    assert holds("_V", "f(1)")
    assert holds("_V", "g(2)")
    assert constraint_overlaps(unifies("f(1)"), unifies("g(2)"))


def test_a_value_that_is_given_decides_by_itself() -> None:
    assert constraint_covers(unifies("f(_X)"), Constraint(X, Op.IN, {"f(1)", "f(g)"}))
    assert not constraint_covers(unifies("f(_X)"), Constraint(X, Op.EQ, "g(1)"))
    assert constraint_covers(Constraint(X, Op.NE, "g(1)"), unifies("f(_X)"))
    assert not constraint_covers(Constraint(X, Op.NE, "f(1)"), unifies("f(_X)"))
    assert not constraint_overlaps(Constraint(X, Op.EQ, "f("), unifies("_X"))


# -- the grammar ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (" f ( x , y ) ", "f(x,y)"),
        ("+5", "5"),
        ("05", "5"),
        ("-0", "0"),
        (r'"a\"b\\c"', r' "a\"b\\c" '),
        ("f(New York)", "f( New York )"),
        ("9" * 5000, "+" + "9" * 5000),
        ("-x", "-x"),
    ],
)
def test_spellings_of_one_term(one: str, other: str) -> None:
    assert Expression.parse(one) == Expression.parse(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [('"h"', "h"), ('"5"', "5"), ("f", "f(x)"), ("f(x)", "f(x,x)"), ("5", "-5"), ("a b", "ab")],
)
def test_different_constants_never_unify(one: str, other: str) -> None:
    assert not holds(one, other)


@pytest.mark.parametrize(
    "text",
    [
        "", "  ", "f(", "f()", "f(x", "f(x,)", "f(,x)", "f(x))", "f(x)y", "(x)", "5(x)", "_X(y)", '"s"(x)',
        "_", "__x", "_1", "_ x", "1a", "a!b", "!", '"open', r'"bad\n"', "x,y", 'a"b"', ")",
    ],
)  # fmt: skip
def test_what_is_no_term_is_refused_as_a_literal_and_false_as_a_value(text: str) -> None:
    with pytest.raises(FilterError, match="not a term"):
        operator_named("unifies").check(text)
    assert not holds(text, "_X")


def test_a_literal_is_a_string_and_so_is_a_value() -> None:
    with pytest.raises(FilterError, match="takes a string"):
        operator_named("unifies").check(b"f(x)")
    assert not operator_named("unifies").holds(5, "5")


def test_depth_is_no_danger_and_length_is_bounded() -> None:
    deep = "f(" * 6_000 + "_X" + ")" * 6_000
    assert holds(deep, deep.replace("_X", "5"))
    assert constraint_covers(unifies(deep), unifies(deep.replace("_X", "g(5)")))
    assert not holds("p(_X,_X)", f"p({'f(' * 4_000}_Y{')' * 4_000},_Y)")
    with pytest.raises(FilterError, match="more than"):
        operator_named("unifies").check("x" * (LENGTH_MAX + 1))
    assert not holds("x" * (LENGTH_MAX + 1), "_X")


def test_terms_that_grow_exponentially_when_substituted_take_no_longer() -> None:
    """_X200 stands for a term of 2 to the power of 200 leaves, and so does _Y200."""
    names = [f"g(_{v}{i},_{v}{i})" for v in "XY" for i in range(200)]
    values = [f"_{v}{i + 1}" for v in "XY" for i in range(200)]
    tied = f"h({','.join(names)},_X0,_X200)"
    assert holds(f"eq({tied},h({','.join(values)},_Y0,_Y200))", "eq(_P,_P)")
    assert not holds(f"eq({tied},h({','.join(values)},g(_Y0),_Y200))", "eq(_P,_P)")


# -- against enumeration -------------------------------------------------------------------------------------

Term = Any  # a variable "_X", a constant "1", or a tuple of a name and arguments


def terms(variables: tuple[str, ...]) -> st.SearchStrategy[Term]:
    return st.recursive(
        st.sampled_from([*variables, "a", "1"]),
        lambda inner: st.one_of(st.tuples(st.just("f"), inner, inner), st.tuples(st.just("g"), inner)),
        max_leaves=4,
    )


def spelled(term: Term) -> str:
    return term if isinstance(term, str) else f"{term[0]}({','.join(map(spelled, term[1:]))})"


def variables_of(term: Term) -> set[str]:
    if isinstance(term, str):
        return {term} if term.startswith("_") else set()
    return set().union(*map(variables_of, term[1:]))


def substituted(term: Term, values: dict[str, Term]) -> Term:
    if isinstance(term, str):
        return values.get(term, term)
    return (term[0], *(substituted(each, values) for each in term[1:]))


def unifiable_by_the_book(one: Term, other: Term) -> bool:
    """Robinson's algorithm, with substitutions written out."""
    other = substituted(other, {name: f"{name}'" for name in variables_of(other)})
    pairs = [(one, other)]
    while pairs:
        a, b = pairs.pop()
        if a == b:
            continue
        if isinstance(b, str) and b.startswith("_"):
            a, b = b, a
        if isinstance(a, str) and a.startswith("_"):
            if a in variables_of(b):
                return False
            pairs = [(substituted(p, {a: b}), substituted(q, {a: b})) for p, q in pairs]
        elif isinstance(a, tuple) and isinstance(b, tuple) and (a[0], len(a)) == (b[0], len(b)):
            pairs.extend(zip(a[1:], b[1:], strict=True))
        else:
            return False
    return True


@given(terms(("_X", "_Y")), terms(("_X", "_Y")))
@settings(max_examples=200)
def test_unify_agrees_with_substitution(one: Term, other: Term) -> None:
    assert unify(Expression.parse(spelled(one)), Expression.parse(spelled(other))) == unifiable_by_the_book(
        one, other
    )


LEAVES = ("a", "1", "c1", "c2", "_V")
SMALL = [
    *LEAVES,
    *(("g", leaf) for leaf in LEAVES),
    *(("f", *pair) for pair in product(LEAVES, repeat=2)),
    *(("f", ("g", one), other) for one, other in product(("a", "c1"), repeat=2)),
]
VALUES = [Expression.parse(spelled(term)) for term in SMALL]


@given(terms(("_X", "_Y")), terms(("_X", "_Y")))
@settings(max_examples=200)
def test_covering_agrees_with_what_unifies(one: Term, other: Term) -> None:
    """b is an instance of a iff every value that unifies with b unifies with a."""
    a, b = Expression.parse(spelled(one)), Expression.parse(spelled(other))
    frozen = substituted(other, {name: f"c{name}" for name in variables_of(other)})
    values = [*VALUES, Expression.parse(spelled(frozen))]
    assert is_instance(b, general=a) == all(unify(value, a) for value in values if unify(value, b))


@given(terms(("_X", "_Y")), terms(("_X", "_Y")), terms(("_X", "_Y")))
@settings(max_examples=200)
def test_covering_is_reflexive_and_transitive(one: Term, two: Term, three: Term) -> None:
    a, b, c = (Expression.parse(spelled(term)) for term in (one, two, three))
    assert is_instance(a, general=a)
    if is_instance(c, general=b) and is_instance(b, general=a):
        assert is_instance(c, general=a)
