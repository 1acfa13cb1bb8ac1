"""Figures in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

__all__ = ["TEXT_FORMAT", "Family", "Labels", "exposed"]

TEXT_FORMAT: Final = "text/plain; version=0.0.4; charset=utf-8"

Labels: TypeAlias = tuple[tuple[str, object], ...]


class Family(NamedTuple):
    """A metric with its samples."""

    name: str
    kind: str
    help: str
    samples: tuple[tuple[Labels, float] | tuple[Labels, float, str], ...]
    """Labels and value of each; of a histogram also what its name ends with."""


def exposed(families: Iterable[Family]) -> str:
    """Metrics as text."""
    return "".join(line for family in families for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    yield f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"
    for labels, value, *suffix in family.samples:
        shown = ",".join(f'{name}="{_escaped(str(each))}"' for name, each in labels)
        name = f"{family.name}{''.join(suffix)}"
        yield f"{name}{{{shown}}} {value}\n" if shown else f"{name} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
