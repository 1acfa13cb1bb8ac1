"""Extensions: operators and filter classes besides the built-in ones (siena-x; book 3.1.4).

    (filters.registry: the protocols, and what is registered)
    relations       covers, overlaps and merge of constraints with operators of extensions
    bitsets         x set<= x"0f"                   byte strings as sets of bits
    unification     x unifies "f(_X, 5)"            terms with variables
    intersection    x && "price > 10"               filters as values
    classes         @instance("quote", "m.Quote")   filter objects
    comparing       @compare("low", "<", "high")    comparisons of two attributes
    elements        some tags (element > 3)         conditions on one element of a list

To add an operator, derive a class from `ExtensionBase`, give it a `name` and `holds`, and `register` it.
"""

from __future__ import annotations

from fairlead.filters.extensions.classes import (
    FilterObject,
    InstanceFilter,
    as_filter,
    filter_object,
    make,
    merge_objects,
)
from fairlead.filters.extensions.relations import (
    constraint_covers,
    constraint_merge,
    constraint_overlaps,
    kinds_of,
)
from fairlead.filters.registry import (
    ENTRY_POINTS,
    Extension,
    ExtensionBase,
    ExtensionType,
    Operator,
    extensions,
    filter_class,
    load,
    load_entry_points,
    operator_named,
    operators,
    register,
    register_filter,
    registered_filters,
    unregister,
)

__all__ = [
    "ENTRY_POINTS",
    "Extension",
    "ExtensionBase",
    "ExtensionType",
    "FilterObject",
    "InstanceFilter",
    "Operator",
    "as_filter",
    "constraint_covers",
    "constraint_merge",
    "constraint_overlaps",
    "extensions",
    "filter_class",
    "filter_object",
    "kinds_of",
    "load",
    "load_entry_points",
    "make",
    "merge_objects",
    "operator_named",
    "operators",
    "register",
    "register_filter",
    "registered_filters",
    "unregister",
]
