"""Engines of the literature, compared with the product's `brute` and `columnar`.

counting      satisfied constraints are counted
tree          a tree of tests on attributes
diagram       binary decision diagrams
automaton     one automaton for all filters
poset         the poset of covering, from its roots
approximate   degrees of a match
shapes        workloads to compare engines on
"""

from __future__ import annotations

from typing import Final

from fairlead.matching import ENGINES as PRODUCT

__all__ = ["ENGINES"]

ENGINES: Final[dict[str, str]] = {
    "automaton": "fairlead_lab.matching.automaton:Automaton",
    "brute": PRODUCT["brute"],
    "columnar": PRODUCT["columnar"],
    "counting": "fairlead_lab.matching.counting:Counting",
    "diagram": "fairlead_lab.matching.diagram:Diagram",
    "poset": "fairlead_lab.matching.poset:Traversal",
    "tree": "fairlead_lab.matching.tree:Tree",
}
"""The engines by name, those of the product included; `fairlead.matching.engine_named` makes each of them."""
