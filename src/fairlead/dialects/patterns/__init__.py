"""Patterns in the languages of other systems: each is read into one of ours, exactly, or refused.

    match_recognize   SQL:2016              FROM Quote MATCH_RECOGNIZE (… PATTERN (A B+ C) DEFINE …)
    sigma             Sigma correlations    correlation: {type: event_count, rules: [login], timespan: 5m, …}

    read(name, text) -> Pattern    the pattern that finds a composite where the text matches in its own system

Nothing is approximated: a construct that our patterns state otherwise, or not at all, is a `TranslationRefused`
with its name and location.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Final

from fairlead.correlation import patterns
from fairlead.errors import FilterError

if TYPE_CHECKING:
    from fairlead.correlation.patterns import Pattern

__all__ = ["NAMES", "OWN", "read"]

OWN: Final = "fairlead"
NAMES: Final = ("match_recognize", "sigma")
"""The languages of patterns that are read."""


def read(name: str, text: str) -> Pattern:
    """The pattern of a text in another language, or in ours. TranslationRefused where there is none."""
    if name == OWN:
        return patterns.parse(text)
    if name not in NAMES:
        known = (OWN, *NAMES)
        near = get_close_matches(name.lower(), known, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise FilterError(f"no language of patterns is named {name!r}", hint=hint)
    found: Pattern = import_module(f"{__name__}.{name}").read(text)
    return found
