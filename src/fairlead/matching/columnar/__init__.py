"""The production engine: filters compiled to arrays, millions of them, changed while it runs."""

from __future__ import annotations

from fairlead.matching.columnar.engine import Account, Columnar, Matches

__all__ = ["Account", "Columnar", "Matches"]
