"""Predicates of one's own: functions of a request that the grants of a role depend on (book 8.1.4).

    predicates = ["desk_rules:small(1000)", "desk_rules:by_day"]

A predicate is a Python function by its dotted name, with arguments as JSON has them. It is called with a `Request`
and the arguments, where the client is: when it subscribes or advertises, with the filter; when it publishes and
before each delivery to it, with the notification. What it refuses is not granted by that role. Brokers in between
do not know of it, so what it withholds has travelled to the subscriber's broker. One that fails refuses.
"""

from __future__ import annotations

import importlib
import json
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from fairlead.errors import PolicyError
from fairlead.filters import Filter
from fairlead.model import Notification
from fairlead.model.packed import pack
from fairlead.security.principals import Principal

__all__ = ["Predicate", "Request"]

_FORM: Final = re.compile(r"(?P<module>[\w.]+):(?P<name>[\w.]+)(?:\((?P<arguments>.*)\))?", re.DOTALL)
log: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Request:
    """Something that a principal wants to do, or to get: `publish`, `deliver`, `subscribe` or `advertise`."""

    principal: Principal
    action: str
    now: int
    """The time, in microseconds."""
    notification: Notification | None = None
    """The notification that is published or delivered."""
    filter: Filter | None = None
    """The filter that is subscribed to or advertised."""

    @cached_property
    def size(self) -> int:
        """The number of bytes that the notification takes on the wire; 0 where there is none."""
        return 0 if self.notification is None else len(pack(self.notification))


@dataclass(frozen=True, slots=True)
class Predicate:
    """A function of requests, by its text."""

    text: str
    function: Callable[..., object] = field(compare=False, repr=False)
    arguments: tuple[Any, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> Predicate:
        """The predicate that a text names; PolicyError."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise PolicyError(f"{text!r} names no function", hint="package.module:function(1000)")
        try:
            function: Any = importlib.import_module(found["module"])
            for part in found["name"].split("."):
                function = getattr(function, part)
            arguments = json.loads(f"[{found['arguments'] or ''}]")
        except Exception as error:  # a module may fail in any way while it is imported
            raise PolicyError(f"{text!r} cannot be loaded: {error}") from None
        if not callable(function):
            raise PolicyError(f"{text!r} is no function")
        return cls(text, function, tuple(arguments))

    def holds(self, request: Request) -> bool:
        """Whether the function says yes; one that fails says no."""
        try:
            return bool(self.function(request, *self.arguments))
        except Exception as error:
            # Its message may have content in it.
            log.warning("the predicate %s has failed: %s", self.text, type(error).__name__)
            return False
