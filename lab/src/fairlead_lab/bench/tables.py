"""Tables as values: the same rows become plain text, Markdown or whatever a terminal can show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fairlead_lab.bench.runner import Spread

__all__ = ["Grid", "brief", "compact", "page", "shown", "sized"]


@dataclass(frozen=True, slots=True)
class Grid:
    """A title, the heads of the columns, and rows of text; the columns of `left` begin at the left."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: frozenset[int] = frozenset({0})

    def plain(self) -> str:
        """Columns lined up with blanks."""
        widths = [max(map(len, column)) for column in zip(self.heads, *self.rows, strict=True)]
        lines = [self._line(row, widths) for row in (self.heads, *self.rows)]
        return "\n".join([self.title, *(f"  {line}".rstrip() for line in lines)])

    def _line(self, row: Sequence[str], widths: Sequence[int]) -> str:
        return "  ".join(
            f"{text:<{width}}" if place in self.left else f"{text:>{width}}"
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        )

    def markdown(self) -> str:
        """A table of GitHub's Markdown under a heading."""
        rule = ["---" if place in self.left else "---:" for place in range(len(self.heads))]
        lines = [" | ".join(each) for each in (self.heads, rule, *self.rows)]
        return "\n".join([f"### {self.title}", "", *(f"| {line} |" for line in lines)])


def page(facts: Iterable[str], grids: Iterable[Grid]) -> str:
    """The measurements and their circumstances, as Markdown: a list, and below it the tables."""
    listed = "\n".join(f"- {line}" for line in facts)
    return "\n\n".join([listed, *(grid.markdown() for grid in grids)]) + "\n"


def brief(value: float | None) -> str:
    """Three digits that matter: 0.042, 1.25, 12.5, 1,250,000."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    for least, digits in ((100, 0), (10, 1), (1, 2)):
        if abs(value) >= least:
            return f"{value:,.{digits}f}"
    return f"{value:.2g}"


def compact(value: float) -> str:
    """A rate in few characters: 950, 47.1k, 1.25M."""
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if value >= unit * 0.9995:
            return f"{brief(value / unit)}{name}"
    return brief(value)


def shown(spread: Spread | None) -> str:
    """A rate with its quartiles."""
    if spread is None:
        return "–"
    return f"{compact(spread.median)} [{compact(spread.low)}, {compact(spread.high)}]"


def sized(n: int) -> str:
    """A number of subscriptions as people say it: 1k, 100k, 1M, 1,500."""
    for unit, name in ((10**6, "M"), (10**3, "k")):
        if n >= unit and n % unit == 0:
            return f"{n // unit}{name}"
    return f"{n:,}"
