"""The text form of filters: `parse` reads it, `render` writes it.

Law: `parse(render(F)) == F` for every filter F, so `render(parse(t))` is the one canonical spelling of t.
`docs/filters.md` is the normative description of the language.
"""

from fairlead.filters.language.parser import parse
from fairlead.filters.language.printer import render

__all__ = ["parse", "render"]
