"""Temporal formulas over lassos and prefixes: the book's definitions, its Table 2.1, and counterexamples."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.audit import Verdict
from fairlead_lab.audit.formulas import (
    FALSE,
    TRUE,
    Always,
    And,
    Atom,
    Eventually,
    Formula,
    Implies,
    Lasso,
    Next,
    Not,
    Or,
    Prefix,
    Until,
    always,
    counterexample,
    eventually,
    exists,
    following,
    for_all,
    judge,
    until,
)

HOLDS, VIOLATED, OPEN = Verdict.HOLDS, Verdict.VIOLATED, Verdict.OPEN
P = Atom("P", lambda state: "p" in state)
Q = Atom("Q", lambda state: "q" in state)

states = st.sampled_from(["", "p", "q", "pq"])
words = st.lists(states, max_size=4).map(tuple)
lassos = st.builds(Lasso, words, st.lists(states, min_size=1, max_size=3).map(tuple))
formulas: st.SearchStrategy[Formula] = st.recursive(
    st.sampled_from([P, Q, TRUE, FALSE]),
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(Always, inner),
        st.builds(Eventually, inner),
        st.builds(Next, inner),
        st.builds(And, st.tuples(inner, inner)),
        st.builds(Or, st.tuples(inner, inner)),
        st.builds(Implies, inner, inner),
        st.builds(Until, inner, inner),
    ),
    max_leaves=5,
)


def true_of(formula: Formula, lasso: Lasso, place: int) -> bool:
    """Definition 2.4, word for word. Beyond one more round of the loop no new subtrace comes."""

    def suffixes() -> list[int]:
        return list(range(place, max(place, len(lasso.stem)) + len(lasso.loop)))

    match formula:
        case Atom(_, holds):
            beyond = (place - len(lasso.stem)) % len(lasso.loop)
            return holds(lasso.stem[place] if place < len(lasso.stem) else lasso.loop[beyond])
        case Not(body):
            return not true_of(body, lasso, place)
        case And(parts):
            return all(true_of(part, lasso, place) for part in parts)
        case Or(parts):
            return any(true_of(part, lasso, place) for part in parts)
        case Implies(left, right):
            return not true_of(left, lasso, place) or true_of(right, lasso, place)
        case Next(body):
            return true_of(body, lasso, place + 1)
        case Always(body):
            return all(true_of(body, lasso, at) for at in suffixes())
        case Eventually(body):
            return any(true_of(body, lasso, at) for at in suffixes())
        case Until(left, right):
            return any(
                true_of(right, lasso, at)
                and all(true_of(left, lasso, earlier) for earlier in range(place, at))
                for at in suffixes()
            )
        case _:
            return formula == TRUE


@given(formulas, lassos)
def test_the_verdict_on_a_lasso_is_the_definitions(formula: Formula, lasso: Lasso) -> None:
    assert judge(formula, lasso) is (HOLDS if true_of(formula, lasso, 0) else VIOLATED)


@given(formulas, words, lassos)
def test_what_is_decided_on_a_prefix_stays_so_however_the_trace_goes_on(
    formula: Formula, known: tuple[str, ...], rest: Lasso
) -> None:
    verdict = judge(formula, Prefix(known))
    whole = judge(formula, Lasso(known + rest.stem, rest.loop))
    assert verdict in (OPEN, whole)


@given(formulas, lassos)
def test_a_counterexample_is_given_iff_the_formula_is_violated(formula: Formula, lasso: Lasso) -> None:
    assert bool(counterexample(formula, lasso)) == (judge(formula, lasso) is VIOLATED)


@given(formulas, lassos)
def test_always_and_eventually_are_dual_and_eventually_is_an_until(formula: Formula, lasso: Lasso) -> None:
    assert judge(~always(formula), lasso) is judge(eventually(~formula), lasso)
    assert judge(eventually(formula), lasso) is judge(until(TRUE, formula), lasso)


# Table 2.1, with a trace that satisfies each formula and one that does not. The book prints "always always not"
# in the fifth row; its meaning, and the addendum, say "next always not".
TABLE = [
    ("P is satisfied by infinitely many places", always(eventually(P)), ("", "p|"), ("pp", "")),
    ("from some place on, P holds forever", eventually(always(P)), ("  ", "p"), ("pp", "p|")),
    ("once P holds, it continues to hold forever", always(P >> always(P)), ("  p", "p"), ("p", " ")),
    ("every P is followed by a Q", always(P >> eventually(Q)), ("p p", "q"), ("pqp", " ")),
    ("P is true for at most one place", always(P >> following(always(~P))), (" p ", " "), ("p p", " ")),
    ("P is true for at least one place", eventually(P), ("  p", " "), ("qqq", " ")),
    ("no trace satisfies both", always(~P) | always(~Q), ("ppp", " "), ("p q", " ")),
    (
        "if initially P holds, then eventually Q holds forever",
        P >> eventually(always(Q)),
        ("p", "q"),
        ("p", " "),
    ),
]


@pytest.mark.parametrize(("meaning", "formula", "yes", "no"), TABLE, ids=[row[0] for row in TABLE])
def test_table_2_1_means_what_the_book_says(
    meaning: str, formula: Formula, yes: tuple[str, str], no: tuple[str, str]
) -> None:
    def lasso(written: tuple[str, str]) -> Lasso:
        return Lasso(tuple(written[0]), tuple(written[1]) or ("",))

    assert judge(formula, lasso(yes)) is HOLDS
    assert judge(formula, lasso(no)) is VIOLATED


def test_the_equivalence_of_the_addendum_holds() -> None:
    left, right = always(~P) | always(~Q), ~(eventually(P) & eventually(Q))
    for word in ("", "p", "q", "pq", "p q", "qpq"):
        trace = Lasso(tuple(word), ("",))
        assert judge(left, trace) is judge(right, trace)


def test_a_prefix_leaves_open_what_depends_on_the_rest() -> None:
    known = Prefix(("p", ""))
    assert judge(eventually(P), known) is HOLDS
    assert judge(eventually(Q), known) is OPEN
    assert judge(always(P), known) is VIOLATED
    assert judge(always(~Q), known) is OPEN
    assert judge(following(following(P)), known) is OPEN
    assert judge(always(P >> eventually(Q)), known) is OPEN
    assert judge(until(P, Q), known) is VIOLATED


def test_a_counterexample_names_the_state_and_the_part_that_fails() -> None:
    trace = Lasso(("", "p", "", "p"), ("",))
    assert counterexample(always(P >> following(always(~P))), trace) == (
        "state 0: □[P ⇒ ○□¬P] fails, at state 1",
        "state 1: P is true, but ○□¬P is not",
        "state 1: ○□¬P fails",
        "state 2: □¬P fails, at state 3",
        "state 3: P is true, in p",
    )
    assert counterexample(always(P >> eventually(Q)), trace)[-1] == (
        "state 1: ◇Q fails: Q is true nowhere from here on"
    )
    assert counterexample(eventually(P), trace) == ()


def test_the_failing_place_may_lie_behind_in_the_loop() -> None:
    trace = Lasso(("",), ("", "p"))
    reasons = counterexample(following(following(following(always(P)))), trace)
    assert reasons[-1].startswith("state 1: P is false")


def test_quantifiers_range_over_finite_domains() -> None:
    def has(letter: str) -> Formula:
        return Atom(letter, lambda state: letter in state)

    trace = Lasso(("pq",), ("",))
    assert judge(for_all("pq", has), trace) is HOLDS
    assert judge(exists("xq", has), trace) is HOLDS
    assert judge(for_all("xq", has), trace) is VIOLATED
    assert judge(for_all("", has), trace) is HOLDS
    assert judge(exists("", has), trace) is VIOLATED


def test_temporal_operators_bind_closer_than_logical_ones_in_print() -> None:
    assert str(always(P >> eventually(Q)) | ~P & Q) == "□[P ⇒ ◇Q] ∨ [¬P ∧ Q]"
    assert str(until(P, always(Q))) == "P U □Q"


def test_a_lasso_has_a_loop() -> None:
    with pytest.raises(ValueError, match="at least one state"):
        Lasso(("p",), ())


def test_leaving_the_scope_after_each_publication_keeps_the_liveness_of_scoped_systems() -> None:
    """The trace σ5 of book 6.2.5: Y is never in X's scope for good, so nothing has to be delivered."""

    def step(action: str, visible: bool) -> dict[str, Any]:
        return {"action": action, "visible": visible}

    stem = (step("sub", False), step("jscope(X)", False), step("jscope(Y)", False))
    loop = (step("pub", True), step("lscope(Y)", True), step("jscope(Y)", False))
    pub = Atom("pub(X, n)", lambda state: state["action"] == "pub")
    notify = Atom("notify(Y, n)", lambda state: state["action"] == "notify")
    visible = Atom("v(X, Y)", lambda state: state["visible"])
    subscribed = Atom("F ∈ S_Y", lambda state: state["action"] != "sub")
    due = eventually(always(pub >> eventually(notify)))
    scoped = always((always(subscribed) & always(visible)) >> due)
    simple = always(always(subscribed) >> due)
    assert judge(scoped, Lasso(stem, loop)) is HOLDS
    assert judge(simple, Lasso(stem, loop)) is VIOLATED
    assert list(islice(counterexample(simple, Lasso(stem, loop)), 1))
