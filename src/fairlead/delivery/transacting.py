"""Transactions, for every runtime: what is said where one is refused."""

from __future__ import annotations

from fairlead.errors import TransactionRefused

__all__ = ["check_open", "refused_member"]


def refused_member(index: int, reason: str) -> TransactionRefused:
    """The refusal of a transaction whose notification with this index cannot be published."""
    return TransactionRefused(
        f"the notification {index} of the transaction is refused: {reason}", hint="nothing was published"
    )


def check_open(state: str) -> None:
    """TransactionRefused where a transaction is over."""
    if state != "open":
        raise TransactionRefused(f"the transaction is {state}", hint="begin another one")
