"""Fairlead on Spark: stages from DataFrame to DataFrame, in batch, streaming and replay.

    raw ─▶ ingest ─▶ order ─▶ detect ─▶ match ─▶ deliver ─▶ audit
           read it   its      patterns  whom it  in order,  what
                     place    completed concerns once       happened

Each stage stands in a module of its name and can be used alone; `pipeline` is the flow of all of them. A batch
run is one micro-batch with a final punctuation, a stream is many: the same input gives the same deliveries,
however it is split, shuffled, repeated or interrupted.

Names are loaded when they are first used: reading a pipeline's file needs no Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fairlead.errors import PipelineError, SparkUnavailable
    from fairlead.spark.auditing import audit
    from fairlead.spark.config import Config
    from fairlead.spark.delivery import deliver
    from fairlead.spark.detection import detect
    from fairlead.spark.ingestion import ingest, notifications, rejected
    from fairlead.spark.matching import match, pairs
    from fairlead.spark.ordering import order
    from fairlead.spark.output import Output
    from fairlead.spark.patterns import Patterns
    from fairlead.spark.publishing import publish
    from fairlead.spark.running import Pipeline
    from fairlead.spark.sessions import session
    from fairlead.spark.subscriptions import Subscriptions
    from fairlead.spark.visible import scope

__all__ = [
    "Config",
    "Output",
    "Patterns",
    "Pipeline",
    "PipelineError",
    "SparkUnavailable",
    "Subscriptions",
    "audit",
    "deliver",
    "detect",
    "ingest",
    "match",
    "notifications",
    "order",
    "pairs",
    "publish",
    "rejected",
    "scope",
    "session",
]

_HOMES: Final[dict[str, tuple[str, ...]]] = {
    "fairlead.errors": ("PipelineError", "SparkUnavailable"),
    "fairlead.spark.auditing": ("audit",),
    "fairlead.spark.config": ("Config",),
    "fairlead.spark.delivery": ("deliver",),
    "fairlead.spark.detection": ("detect",),
    "fairlead.spark.ingestion": ("ingest", "notifications", "rejected"),
    "fairlead.spark.matching": ("match", "pairs"),
    "fairlead.spark.ordering": ("order",),
    "fairlead.spark.output": ("Output",),
    "fairlead.spark.patterns": ("Patterns",),
    "fairlead.spark.publishing": ("publish",),
    "fairlead.spark.running": ("Pipeline",),
    "fairlead.spark.visible": ("scope",),
    "fairlead.spark.sessions": ("session",),
    "fairlead.spark.subscriptions": ("Subscriptions",),
}
_HOME: Final = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name, loaded when it is first used (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
