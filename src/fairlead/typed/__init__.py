"""Instances of your classes as notifications, and notifications as instances.

A class is a dataclass, a Struct of msgspec or a model of pydantic. Its **model** knows

    the type       the class's name, which is the attribute `type`; `fairlead_type: ClassVar[str]` gives another
    the event      of an instance: its fields under their names, nested classes as records
    the instance   of a notification: of the class that `type` names, with values as the class annotates them
    the filter     for the class and its subclasses

and `schema_of(*classes)` declares them to a bus or to brokers: subclasses are subtypes, annotations are domains.

**The law.** `read(event(instance)) == instance`, for values that an attribute may have; a field that an event
lacks has its default. What `schema_of` declares admits the event of every instance of these classes, but not a
number that is none (NaN).

`Bus.of(Quote)` and `Client.of(Quote)` publish and deliver instances. Fields named `id`, `producer`, `time` and
`sequence` are the envelope of the notification.
"""

from __future__ import annotations

from fairlead.typed.facade import AsyncTyped, AsyncTypedSubscription, Typed, TypedSubscription
from fairlead.typed.model import Model, schema_of

__all__ = [
    "AsyncTyped",
    "AsyncTypedSubscription",
    "Model",
    "Typed",
    "TypedSubscription",
    "schema_of",
]
