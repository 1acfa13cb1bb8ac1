"""Fairlead: a distributed event-based system. One subscription language, one meaning, three runtimes.

    import fairlead as fl

    bus = fl.Bus()
    with bus.subscribe('symbol in {"IBM", "SAP"} and price > 100') as quotes:
        bus.publish({"symbol": "IBM", "price": 101.5})
        print(quotes.get())

Importing it costs next to nothing: each name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fairlead import dialects
    from fairlead.bus import (
        Advertisement,
        Bus,
        BusClosed,
        Delivery,
        Detection,
        LogFile,
        NotAdvertised,
        Subscription,
        SubscriptionEnded,
        SubscriptionRefused,
    )
    from fairlead.channels import Channel, Delay, Expires, Missed, Priority, Quality, Retain
    from fairlead.conditions import Condition, changes, deviates
    from fairlead.correlation.patterns import Pattern
    from fairlead.correlation.patterns.building import event
    from fairlead.delivery.sessions import Session, session
    from fairlead.errors import (
        ChannelError,
        ExtensionError,
        FairleadError,
        FilterError,
        FilterSyntaxError,
        QualityRefused,
        SchemaError,
        ScopeError,
        ScopeSyntaxError,
        Undecided,
        ValueRefused,
    )
    from fairlead.filters import (
        Filter,
        Schema,
        covers,
        identical,
        merge,
        overlaps,
        parse,
        relate,
        simplify,
    )
    from fairlead.filters.explain import Explanation, explain
    from fairlead.matching.frames import match_arrow
    from fairlead.model import ABSENT, Instant, Interval, Multi, Notification, Point, Record, Rectangle
    from fairlead.network import connect, sync
    from fairlead.rules.hooks import Hook
    from fairlead.scopes import Scopes
    from fairlead.typed import schema_of

    __version__: str

__all__ = [
    "ABSENT",
    "Advertisement",
    "Bus",
    "BusClosed",
    "Channel",
    "ChannelError",
    "Condition",
    "Delay",
    "Delivery",
    "Detection",
    "Expires",
    "Explanation",
    "ExtensionError",
    "FairleadError",
    "Filter",
    "FilterError",
    "FilterSyntaxError",
    "Hook",
    "Instant",
    "Interval",
    "LogFile",
    "Missed",
    "Multi",
    "NotAdvertised",
    "Notification",
    "Pattern",
    "Point",
    "Priority",
    "Quality",
    "QualityRefused",
    "Record",
    "Rectangle",
    "Retain",
    "Schema",
    "SchemaError",
    "ScopeError",
    "ScopeSyntaxError",
    "Scopes",
    "Session",
    "Subscription",
    "SubscriptionEnded",
    "SubscriptionRefused",
    "Undecided",
    "ValueRefused",
    "__version__",
    "changes",
    "connect",
    "covers",
    "deviates",
    "dialects",
    "event",
    "explain",
    "identical",
    "match_arrow",
    "merge",
    "overlaps",
    "parse",
    "relate",
    "schema_of",
    "session",
    "simplify",
    "sync",
]

_HOMES: Final[dict[str, tuple[str, ...]]] = {
    "fairlead.bus": (
        *("Advertisement", "Bus", "BusClosed", "Delivery", "Detection", "LogFile", "NotAdvertised"),
        *("Subscription", "SubscriptionEnded", "SubscriptionRefused"),
    ),
    "fairlead.channels": ("Channel", "Delay", "Expires", "Missed", "Priority", "Quality", "Retain"),
    "fairlead.conditions": ("Condition", "changes", "deviates"),
    "fairlead.correlation.patterns": ("Pattern",),
    "fairlead.correlation.patterns.building": ("event",),
    "fairlead.delivery.sessions": ("Session", "session"),
    "fairlead.errors": (
        *(
            "ChannelError",
            "ExtensionError",
            "FairleadError",
            "FilterError",
            "FilterSyntaxError",
            "QualityRefused",
            "SchemaError",
            "ScopeError",
        ),
        *("ScopeSyntaxError", "Undecided", "ValueRefused"),
    ),
    "fairlead.filters": (
        *("Filter", "Schema", "covers", "identical", "merge", "overlaps", "parse", "relate", "simplify"),
    ),
    "fairlead.filters.explain": ("Explanation", "explain"),
    "fairlead.matching.frames": ("match_arrow",),
    "fairlead.model": (
        "ABSENT",
        "Instant",
        "Interval",
        "Multi",
        "Notification",
        "Point",
        "Record",
        "Rectangle",
    ),
    "fairlead.network": ("connect", "sync"),
    "fairlead.rules.hooks": ("Hook",),
    "fairlead.scopes": ("Scopes",),
    "fairlead.typed": ("schema_of",),
}
_HOME: Final = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name, loaded when it is first used (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("fairlead")
    elif name == "dialects":
        value = import_module("fairlead.dialects")
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
