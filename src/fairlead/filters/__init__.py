"""Filters: one language, one meaning, and the algebra that routing, scopes and access control compute with.

parse, str          text to filter and back
F.matches(n)        the meaning
covers, overlaps,   relations between filters: sound everywhere, exact where the theory says they can be
identical, relate
merge, simplify     one filter for several; one constraint for several
witness             a notification that shows a relation, or that it does not hold
Schema              the type lattice and the declared attributes
Poset               many filters in the order of covering
"""

from fairlead.filters.algebra import (
    Algebra,
    Relation,
    covers,
    identical,
    overlaps,
    relate,
    witness,
)
from fairlead.filters.constraint import Constraint, Extended, Op, Range, TypeName
from fairlead.filters.filter import EVERYTHING, NOTHING, And, Filter, Not, Or, Tested
from fairlead.filters.language import parse, render
from fairlead.filters.merging import Merger, merge
from fairlead.filters.paths import Path, Selection
from fairlead.filters.patterns import RegularExpression, SubjectPattern
from fairlead.filters.poset import Poset
from fairlead.filters.schema import Schema
from fairlead.filters.simplify import simplify
from fairlead.filters.terms import Attribute, Inspector, Length, Polynomial, Position, Term

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "Algebra",
    "And",
    "Attribute",
    "Constraint",
    "Extended",
    "Filter",
    "Inspector",
    "Length",
    "Merger",
    "Not",
    "Op",
    "Or",
    "Path",
    "Polynomial",
    "Poset",
    "Position",
    "Range",
    "RegularExpression",
    "Relation",
    "Schema",
    "Selection",
    "SubjectPattern",
    "Term",
    "Tested",
    "TypeName",
    "covers",
    "identical",
    "merge",
    "overlaps",
    "parse",
    "relate",
    "render",
    "simplify",
    "witness",
]
