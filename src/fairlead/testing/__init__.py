"""Hypothesis strategies for values and filters, for the tests of this project and of extensions.

Not imported by anything else: it needs `hypothesis`, which comes with the extra `dev`.
"""

from fairlead.testing.strategies import (
    NAMES,
    Quote,
    conjunctions,
    constraints,
    filters,
    json_texts,
    notifications,
    operations_on,
    paths,
    polynomials,
    schemas,
    simple_values,
    templates,
    values,
)

__all__ = [
    "NAMES",
    "Quote",
    "conjunctions",
    "constraints",
    "filters",
    "json_texts",
    "notifications",
    "operations_on",
    "paths",
    "polynomials",
    "schemas",
    "simple_values",
    "templates",
    "values",
]
