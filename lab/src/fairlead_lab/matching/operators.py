"""The operators of the language, one workload each, to compare what a filter costs by its operator.

Every workload has n filters of one form, of which a notification matches about ten: what is compared is finding
them, not how many they are. An operator that nearly every value satisfies has an equality beside it, which leaves
ten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, NamedTuple

from fairlead.filters.filter import Filter
from fairlead.filters.language import parse
from fairlead.model import Interval, Notification, Point, Rectangle
from fairlead_lab.matching.shapes import Shape

__all__ = ["EQUALITY", "OPERATORS"]

ALIKE: Final = 10
"""So many filters ask for the same."""
EQUALITY: Final = "operators-equal"


class Form(NamedTuple):
    """A filter by its number and its group; the attributes of a notification by a group and a number below 20."""

    filter: Callable[[int, int], str]
    values: Callable[[int, float], dict[str, Any]]


_FORMS: Final[dict[str, Form]] = {
    "equal": Form(lambda i, g: f'x = "v{g}"', lambda g, r: {"x": f"v{g}"}),
    "equal-number": Form(lambda i, g: f"x = {g}.5", lambda g, r: {"x": g + 0.5}),
    "in": Form(lambda i, g: f'x in {{"v{g}", "w{g}"}}', lambda g, r: {"x": f"v{g}"}),
    "unequal": Form(lambda i, g: f'g = {g} and x != "v{i % 7}"', lambda g, r: {"g": g, "x": "v9"}),
    "not-in": Form(lambda i, g: f'g = {g} and x not in {{"a", "b"}}', lambda g, r: {"g": g, "x": "v9"}),
    "exists": Form(lambda i, g: f"g = {g} and exists x", lambda g, r: {"g": g, "x": 1}),
    "absent": Form(lambda i, g: f"g = {g} and absent y", lambda g, r: {"g": g, "x": 1}),
    "kind": Form(lambda i, g: f"g = {g} and x is number", lambda g, r: {"g": g, "x": 1}),
    "compare": Form(lambda i, g: f"x > {i}", lambda g, r: {"x": r}),
    "compare-strings": Form(lambda i, g: f'x > "{i:06}"', lambda g, r: {"x": f"{int(r):06}"}),
    "range": Form(lambda i, g: f"x in [{i}, {i + 9.5}]", lambda g, r: {"x": g * ALIKE + 0.5}),
    "not-in-range": Form(
        lambda i, g: f"g = {g} and x not in [{i}, {i + 9}]", lambda g, r: {"g": g, "x": -1.0}
    ),
    "prefix": Form(lambda i, g: f'x prefix "/v1/r{g}/"', lambda g, r: {"x": f"/v1/r{g}/items/7"}),
    "suffix": Form(lambda i, g: f'x suffix "/f{g}.log"', lambda g, r: {"x": f"/var/data/f{g}.log"}),
    "substring": Form(lambda i, g: f'x substring "-app{g}-"', lambda g, r: {"x": f"host-app{g}-eu"}),
    "regex": Form(
        lambda i, g: f'x ~ "app{g} .* (merger|order) .*"', lambda g, r: {"x": f"app{g} plans an order of {g}"}
    ),
    "regex-middle": Form(
        lambda i, g: f'x ~ ".*-app{g}-.*[0-9]+"', lambda g, r: {"x": f"host-app{g}-eu-west-{g % 9}"}
    ),
    "subject": Form(lambda i, g: f'x matches "a/g{g}/*/**"', lambda g, r: {"x": f"a/g{g}/b/c"}),
    "subject-wild": Form(lambda i, g: f'x matches "*/g{g}/**"', lambda g, r: {"x": f"a/g{g}/b/c"}),
    "difference": Form(lambda i, g: f"x - y > {i}.25", lambda g, r: {"x": round(r, 2) + 100, "y": 100.0}),
    "product": Form(
        lambda i, g: f"g = {g} and x * y > {i % 50}", lambda g, r: {"g": g, "x": round(r, 2) + 50, "y": 3}
    ),
    "contains": Form(lambda i, g: f'x contains "e{g}"', lambda g, r: {"x": ["blue", f"e{g}", "c"]}),
    "contains-number": Form(lambda i, g: f"x contains {g}.5", lambda g, r: {"x": [-1.0, g + 0.5]}),
    "lacks": Form(lambda i, g: f'g = {g} and x lacks "e{i % 5}"', lambda g, r: {"g": g, "x": ["a", "b"]}),
    "superset": Form(
        lambda i, g: f'x superset {{"blue", "e{g}"}}', lambda g, r: {"x": ["blue", f"e{g}", "c"]}
    ),
    "subset": Form(
        lambda i, g: f'g = {g} and x subset {{"a", "b", "e{g}"}}', lambda g, r: {"g": g, "x": ["a", "b"]}
    ),
    "overlaps": Form(lambda i, g: f'x overlaps {{"e{g}", "f{g}"}}', lambda g, r: {"x": ["a", f"e{g}"]}),
    "disjoint": Form(
        lambda i, g: f'g = {g} and x disjoint {{"e{i % 5}"}}', lambda g, r: {"g": g, "x": ["a", "b"]}
    ),
    "equal-sets": Form(lambda i, g: f'x = {{"a", "e{g}"}}', lambda g, r: {"x": ["a", f"e{g}"]}),
    "point-in-rectangle": Form(
        lambda i, g: f"x in rectangle({i}, 0, {i + 9.5}, 1)", lambda g, r: {"x": Point(g * ALIKE, 0)}
    ),
    "rectangle-contains": Form(
        lambda i, g: f"x contains point({g * ALIKE}, 0)",
        lambda g, r: {"x": Rectangle(g * ALIKE - 1, -1, g * ALIKE + 1, 1)},
    ),
    "intervals-overlap": Form(
        lambda i, g: f"x overlaps interval({i}, {i + 9.5})",
        lambda g, r: {"x": Interval(g * ALIKE, g * ALIKE)},
    ),
    "template": Form(lambda i, g: f'("quote", "g{g}", *)', lambda g, r: {"tuple": ("quote", f"g{g}", "x")}),
    "path": Form(
        lambda i, g: f'//leg[@symbol = "s{g}"]',
        lambda g, r: {"leg": [{"symbol": f"s{g}", "n": 1}, {"symbol": "t", "n": 2}]},
    ),
    "count": Form(
        lambda i, g: f'count(//leg[@symbol = "s{g}"]) >= 2', lambda g, r: {"leg": [{"symbol": f"s{g}"}] * 2}
    ),
}


def _shape(name: str, form: Form) -> Shape:
    def filters(size: int, rng: Random) -> Iterator[Filter]:
        groups = max(1, size // ALIKE)
        for number in range(size):
            yield parse(form.filter(number, number % groups))

    def notifications(size: int, rng: Random) -> Iterator[Notification]:
        while True:
            group = rng.randrange(max(1, size // ALIKE))
            yield Notification.of(form.values(group, rng.uniform(0.0, 2.0 * ALIKE)))

    return Shape(f"operators-{name}", form.filter(7, 7), filters, notifications)


OPERATORS: Final[dict[str, Shape]] = {
    shape.name: shape for shape in (_shape(name, form) for name, form in _FORMS.items())
}
