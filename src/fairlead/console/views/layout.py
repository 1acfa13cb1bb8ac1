"""Places of brokers in a picture: a tree drawn in rings around its centre.

The law: equal networks have equal pictures, whichever broker is asked first, and no two brokers of a ring are
nearer to one another than a broker is wide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

__all__ = ["Point", "points"]

RING: Final = 150.0
"""The least distance between two rings."""
WIDTH: Final = 92.0
"""The least distance between two brokers of a ring."""


class Point(NamedTuple):
    """A point in the plane."""

    x: float
    y: float


def points(names: Iterable[str], links: Iterable[tuple[str, str]]) -> dict[str, Point]:
    """A point for each broker. Parts of a network that is not whole stand beside one another."""
    neighbours: dict[str, list[str]] = {name: [] for name in sorted(names)}
    for one, other in sorted(links):
        neighbours[one].append(other)
        neighbours[other].append(one)
    found: dict[str, Point] = {}
    left = 0.0
    for part in sorted(_parts(neighbours), key=lambda part: (-len(part), part[0])):
        drawn = _rings(part, neighbours)
        reach = max(abs(point.x) for point in drawn.values()) + WIDTH
        shift = left + reach if found else 0.0
        found |= {name: Point(round(x + shift, 1), round(y, 1)) for name, (x, y) in drawn.items()}
        left = shift + reach
    return found


def _parts(neighbours: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The connected parts, each with its names in order."""
    seen: set[str] = set()
    parts = []
    for start in neighbours:
        if start not in seen:
            part = _distances(start, neighbours)
            seen.update(part)
            parts.append(sorted(part))
    return parts


def _distances(start: str, neighbours: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Distances of all that can be reached, the least first."""
    found = {start: 0}
    ahead = [start]
    for name in ahead:
        for other in sorted(neighbours[name]):
            if other not in found:
                found[other] = found[name] + 1
                ahead.append(other)
    return found


def _centre(part: Sequence[str], neighbours: Mapping[str, Sequence[str]]) -> str:
    """The middle of a longest way, found from one end to the other."""
    first = _farthest(part[0], neighbours)
    last = _farthest(first, neighbours)
    first, last = min(first, last), max(first, last)
    away = _distances(first, neighbours)
    way = [last]
    while way[-1] != first:
        way.append(min(each for each in neighbours[way[-1]] if away[each] < away[way[-1]]))
    middle = way[len(way) // 2], way[(len(way) - 1) // 2]
    return min(middle)


def _farthest(start: str, neighbours: Mapping[str, Sequence[str]]) -> str:
    found = _distances(start, neighbours)
    return min(found, key=lambda name: (-found[name], name))


def _rings(part: Sequence[str], neighbours: Mapping[str, Sequence[str]]) -> dict[str, Point]:
    """Each broker on the ring of its distance, within the sector of the one before it."""
    centre = _centre(part, neighbours)
    depth = _distances(centre, neighbours)
    below: dict[str, list[str]] = {name: [] for name in depth}
    taken = {centre}
    for name in depth:
        below[name] = [each for each in sorted(neighbours[name]) if each not in taken]
        taken.update(below[name])
    leaves: dict[str, int] = {}
    for name in reversed(depth):
        leaves[name] = sum(leaves[each] for each in below[name]) or 1
    share = 2 * math.pi / leaves[centre]
    radii = _radii(depth, leaves, share)
    found = {centre: Point(0.0, 0.0)}
    from_angle = {centre: -math.pi / 2}
    for name in depth:
        angle = from_angle[name]
        for each in below[name]:
            from_angle[each] = angle
            turn = angle + leaves[each] * share / 2
            radius = radii[depth[each]]
            found[each] = Point(radius * math.cos(turn), radius * math.sin(turn))
            angle += leaves[each] * share
    return found


def _radii(depth: Mapping[str, int], leaves: Mapping[str, int], share: float) -> list[float]:
    """The radius of each ring: far enough out for the narrowest sector on it."""
    narrowest: dict[int, int] = {}
    for name, ring in depth.items():
        narrowest[ring] = min(leaves[name], narrowest.get(ring, leaves[name]))
    radii = [0.0]
    for ring in range(1, len(narrowest)):
        sector = min(narrowest[ring] * share, math.pi)
        radii.append(max(radii[-1] + RING, WIDTH / (2 * math.sin(sector / 2))))
    return radii
