"""Pictures without a library: SVG where there are lines, HTML where bars and text must fit every width.

The flow is drawn twice, lying and standing; the style sheet shows the one that fits. A picture over time is
stretched to the page's width, its labels stand beside it as text, so that they keep their size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fairlead.markup import Child, Markup, joined, tag
from fairlead.spark.report.numbers import compact, duration, figure, round_up

__all__ = [
    "SHARES",
    "Bar",
    "Branch",
    "Moment",
    "Node",
    "columns",
    "flow",
    "rows",
    "share",
    "steps",
    "timeline",
]

BINS_MAX: Final = 240
SECONDS_MIN: Final = 0.001
"""No batch takes less; a rate over less would only show how coarse the clock is."""


# -- the flow ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Branch:
    """The rows that leave the flow at a stage: their number, label, and the name of their colour."""

    count: int
    name: str
    tone: str

    @property
    def shown(self) -> str:
        return figure(self.count)


@dataclass(frozen=True, slots=True)
class Node:
    """A stage: its name, what it works with, how long it took, what came in, and what leaves the flow here."""

    name: str
    about: str
    took: str
    into: str
    unit: str
    branches: tuple[Branch, ...] = ()
    tone: str = "plain"


def flow(nodes: Sequence[Node], label: str) -> Markup:
    """The stages with what flows between them, lying (for wide pages) and standing (for narrow ones)."""
    return joined(_lying(nodes, label), _standing(nodes, label))


_ARROW: Final = "M-7 -4.5 L1 0 L-7 4.5"


def _text(x: float, y: float, what: Child, class_: str, anchor: str = "middle") -> Markup:
    return tag("text", what, x=x, y=y, class_=class_, text_anchor=anchor)


def _lying(nodes: Sequence[Node], label: str) -> Markup:
    width, height, gap = 118, 66, 92
    drawn: list[Markup] = []
    for place, node in enumerate(nodes):
        left = gap + place * (width + gap)
        middle, top = left + width / 2, 34
        centre = top + height / 2
        drawn += [
            tag("path", d=f"M{left - gap + 4} {centre} H{left - 5}", class_="way"),
            tag("path", d=_ARROW, class_="way", transform=f"translate({left - 5} {centre})"),
            _text(left - gap / 2, centre - 9, node.into, "figure"),
            _text(left - gap / 2, centre + 17, node.unit, "small"),
            tag("rect", x=left, y=top, width=width, height=height, rx=9, class_=f"stage {node.tone}"),
            _text(middle, centre - 4, node.name, "name"),
            _text(middle, centre + 15, node.about, "small"),
            _text(middle, top - 10, node.took, "small") if node.took else Markup(),
        ]
        for number, branch in enumerate(node.branches):
            x = left + 22
            y = top + height + 34 + 25 * number
            drawn += [
                tag("path", d=f"M{x} {top + height} V{y - 10} q0 6 6 6 h10", class_=f"off {branch.tone}"),
                tag(
                    "text",
                    tag("tspan", branch.shown, class_="figure"),
                    f" {branch.name}",
                    x=x + 23,
                    y=y,
                    class_=f"branch {branch.tone}" if branch.count else "branch none",
                ),
            ]
    deepest = max((len(node.branches) for node in nodes), default=0)
    whole = f"0 0 {gap + len(nodes) * (width + gap) - gap + 6} {34 + height + 20 + 25 * deepest}"
    return tag("svg", *drawn, viewBox=whole, class_="flow lying", role="img", aria_label=label)


def _standing(nodes: Sequence[Node], label: str) -> Markup:
    width, height, gap, middle = 150, 58, 58, 95
    drawn: list[Markup] = []
    for place, node in enumerate(nodes):
        top = gap + place * (height + gap)
        centre = top + height / 2
        drawn += [
            tag("path", d=f"M{middle} {top - gap + 4} V{top - 5}", class_="way"),
            tag("path", d=_ARROW, class_="way", transform=f"translate({middle} {top - 5}) rotate(90)"),
            tag(
                "text",
                tag("tspan", node.into, class_="figure"),
                f" {node.unit}",
                x=middle + 13,
                y=top - gap / 2 + 4,
                class_="small",
            ),
            tag(
                "rect",
                x=middle - width / 2,
                y=top,
                width=width,
                height=height,
                rx=9,
                class_=f"stage {node.tone}",
            ),
            _text(middle, centre - 3, node.name, "name"),
            _text(middle, centre + 15, node.about, "small"),
        ]
        x = middle + width / 2
        for number, branch in enumerate(node.branches):
            y = centre + 22 * (number - (len(node.branches) - 1) / 2)
            drawn += [
                tag("path", d=f"M{x} {centre} L{x + 18} {y} h8", class_=f"off {branch.tone}"),
                tag(
                    "text",
                    tag("tspan", branch.shown, class_="figure"),
                    f" {branch.name}",
                    x=x + 32,
                    y=y + 4.5,
                    class_=f"branch {branch.tone}" if branch.count else "branch none",
                ),
            ]
    whole = f"0 0 350 {gap + len(nodes) * (height + gap) - gap + 8}"
    return tag("svg", *drawn, viewBox=whole, class_="flow standing", role="img", aria_label=label)


# -- over time ---------------------------------------------------------------------------------------------


def steps(
    widths: Sequence[float],
    amounts: Sequence[int],
    *,
    tone: str,
    unit: str,
    label: str,
    ends: tuple[str, str] | None = None,
) -> Markup:
    """A rate over time: each step is as wide as it took and as high as it was fast, so its area is the amount.

    `ends` are the words below it, where its width is no time.
    """
    widths, amounts = _binned(widths, amounts)
    rates = [amount / width for amount, width in zip(amounts, widths, strict=True)]
    top, whole = round_up(max(rates)), sum(widths)
    at = 0.0
    line: list[str] = []
    for width, height in zip(widths, rates, strict=True):
        y = 100 * (1 - height / top)
        line.append(f"{'L' if line else 'M'}{_at(at, whole)} {y:.1f}")
        at += width
        line.append(f"L{_at(at, whole)} {y:.1f}")
    outline = " ".join(line)
    grid = [tag("path", d=f"M0 {y} H1000", class_="grid") for y in (0, 50, 100)]
    picture = tag(
        "svg",
        *grid,
        tag("path", d=f"{outline} L1000 100 L0 100 Z", class_=f"area {tone}"),
        tag("path", d=outline, class_=f"edge {tone}"),
        viewBox="0 0 1000 100",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )
    ticks = [tag("span", f"{compact(share * top)}") for share in (1, 0.5, 0)]
    said = ends or ("0 s", duration(whole / 2), duration(whole))
    times = [tag("span", each) for each in said]
    return tag(
        "figure",
        tag("figcaption", tag("i", class_=f"key {tone}"), unit),
        tag(
            "div",
            tag("div", *ticks, class_="y", aria_hidden="true"),
            picture,
            tag("div", *times, class_="x", aria_hidden="true"),
            class_="plot",
        ),
        class_="steps",
    )


def _at(time: float, whole: float) -> str:
    return f"{1000 * time / whole:.2f}".rstrip("0").rstrip(".")


def _binned(widths: Sequence[float], amounts: Sequence[int]) -> tuple[list[float], list[int]]:
    """At most BINS_MAX steps: neighbours are added up, above all those that took no time."""
    size = -(-len(widths) // BINS_MAX)
    pairs = [
        (sum(widths[start : start + size]), sum(amounts[start : start + size]))
        for start in range(0, len(widths), size)
    ]
    binned: list[tuple[float, int]] = []
    for width, amount in pairs:
        if binned and min(width, binned[-1][0]) < SECONDS_MIN:
            before, sooner = binned.pop()
            binned.append((before + width, sooner + amount))
        else:
            binned.append((width, amount))
    return [max(width, SECONDS_MIN) for width, _ in binned], [amount for _, amount in binned]


@dataclass(frozen=True, slots=True)
class Moment:
    """Something on a time line: when, in seconds from its beginning, what it is called, and its colour."""

    at: float
    label: str
    tone: str
    hollow: bool = False
    """Whether nothing happened then: time was over."""


def timeline(moments: Sequence[Moment], seconds: float, ends: tuple[str, str], label: str) -> Markup:
    """Moments on a line, in proportion; labels that would overlap are drawn above one another."""
    left, right, lane = 30.0, 970.0, 24.0
    places = [left + (right - left) * (moment.at / seconds if seconds else 0.5) for moment in moments]
    lanes = _lanes(places, [moment.label for moment in moments])
    line = 26 + lane * max(lanes, default=0)
    drawn = [
        tag("path", d=f"M{left} {line} H{right}", class_="axis"),
        *(
            tag("path", d=f"M{x:.1f} {line} V{line - 12 - lane * up:.0f}", class_="stem")
            for x, up in zip(places, lanes, strict=True)
        ),
        *(
            joined(
                tag(
                    "circle",
                    cx=f"{x:.1f}",
                    cy=line,
                    r=6,
                    class_=f"dot {moment.tone}{' hollow' if moment.hollow else ''}",
                ),
                _text(round(x, 1), line - 15 - lane * up, moment.label, "mark", _anchor(x)),
            )
            for moment, x, up in zip(moments, places, lanes, strict=True)
        ),
        _text(left, line + 26, ends[0], "small", "start"),
        _text((left + right) / 2, line + 26, duration(seconds), "small"),
        _text(right, line + 26, ends[1], "small", "end"),
    ]
    picture = tag(
        "svg", *drawn, viewBox=f"0 0 1000 {line + 36:.0f}", class_="timeline", role="img", aria_label=label
    )
    return tag("div", picture, class_="scroll", tabindex=0, role="region", aria_label=label)


def _anchor(x: float) -> str:
    return "start" if x < 100 else "end" if x > 900 else "middle"


def _lanes(places: Sequence[float], labels: Sequence[str]) -> list[int]:
    """For each label the lowest lane that is free where it stands."""
    taken: list[list[tuple[float, float]]] = []
    lanes = []
    for x, text in zip(places, labels, strict=True):
        width = 8.2 * len(text) + 14
        start = {"start": x, "middle": x - width / 2, "end": x - width}[_anchor(x)]
        span = start, start + width
        number = next(
            (
                number
                for number, others in enumerate(taken)
                if all(span[1] <= low or high <= span[0] for low, high in others)
            ),
            len(taken),
        )
        if number == len(taken):
            taken.append([])
        taken[number].append(span)
        lanes.append(number)
    return lanes


# -- bars --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar with its label and what is written at its end."""

    label: str
    value: float
    shown: str
    tone: str = "one"


def columns(bars: Sequence[Bar], label: str) -> Markup:
    """A distribution: columns side by side where there is room, bars below each other where there is not."""
    return _bars(bars, "columns", label)


def rows(bars: Sequence[Bar], label: str) -> Markup:
    """Bars below each other."""
    return _bars(bars, "rows", label)


def _bars(bars: Sequence[Bar], kind: str, label: str) -> Markup:
    top = max((bar.value for bar in bars), default=0)
    return tag(
        "ol",
        *(
            tag(
                "li",
                tag("span", bar.label, class_="label"),
                tag("span", tag("i", class_=bar.tone), class_="track"),
                tag("span", bar.shown, class_="amount"),
                class_=share(bar.value, top),
            )
            for bar in bars
        ),
        class_=f"bars {kind}",
        aria_label=label,
    )


def share(value: float, top: float) -> str:
    """The class of a bar of this length, in hundredths of the longest; a hair is left where there is anything.

    A style of its own would need a policy of content that allows such styles, which the console's does not.
    """
    return f"s{max(round(100 * value / (top or 1)), 1 if value else 0)}"


SHARES: Final = "".join(f".s{each}{{--share:{each / 100:g}}}" for each in range(101)) + "\n"
"""The style of these classes."""
