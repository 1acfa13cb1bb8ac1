"""The sights of one notification: the components that see it, in which version, at which order time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

from fairlead.model import Notification
from fairlead.model.encoding import canonical

__all__ = ["Failure", "Matched", "Reached", "Sight", "State", "StateKey", "tag_of"]

Matched: TypeAlias = Callable[[Notification], Collection[str]]
"""The components that have a subscription which matches a version."""
StateKey: TypeAlias = tuple[str, str, int]
"""A policy with a state: whose it is, its direction, its number."""
State: TypeAlias = Mapping[StateKey, Any]


class Sight(NamedTuple):
    """A component sees a version of a notification at an order time."""

    component: str
    notification: Notification
    tag: str
    """Empty for what was published; sixteen hexadecimal digits of its content for a version that mappings made."""
    time: int


class Failure(NamedTuple):
    """A mapping or policy written in Python that failed: the edge or choice let nothing pass."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reached:
    """The sights of a notification, and the changed states of policies, which the caller retains for the
    next one."""

    sights: tuple[Sight, ...]
    changes: State
    failures: tuple[Failure, ...] = ()


def tag_of(version: Notification, published: Notification) -> str:
    """The tag of a version: empty where its content is what was published."""
    if version is published or version.attributes == published.attributes:
        return ""
    return blake2b(canonical(version.attributes), digest_size=8).hexdigest()
