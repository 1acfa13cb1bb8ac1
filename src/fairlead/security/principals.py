"""A principal: the name that credentials prove, with their other claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from fairlead.errors import ValueRefused
from fairlead.model import Notification

__all__ = ["ANONYMOUS", "HOUR_US", "NOBODY", "SEPARATOR", "Principal"]

ANONYMOUS: Final = "anonymous"
"""The name of a principal without credentials. No credentials prove it."""
RESERVED: Final = ("c:", "d:")
"""Brokers name clients and durable subscribers with these before their names."""
SEPARATOR: Final = "~"
"""Names that begin with a principal's and this are the principal's; so no principal's name has it."""
NAME_MAX: Final = 200
HOUR_US: Final = 3_600_000_000
_SCALARS: Final = (str, int, float, bool)
_NO_CLAIMS: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Principal:
    """A name that credentials prove: `via` a certificate, a token or a password; or none."""

    name: str
    claims: Mapping[str, Any] = field(default_factory=lambda: _NO_CLAIMS)
    """Further claims of the credentials, such as the groups of a user."""
    via: str = "process"
    until: int | None = None
    """When the credentials expire, in microseconds."""
    token: str = ""
    """The id of the token, by which it can be revoked."""

    def __post_init__(self) -> None:
        name = self.name
        is_allowed = name.isprintable() and SEPARATOR not in name and not name.startswith(RESERVED)
        if not name or not is_allowed or len(name.encode()) > NAME_MAX:
            raise ValueRefused(
                f"{name!r} cannot be the name of a principal",
                hint=f"up to {NAME_MAX} bytes of printable characters but ~, that do not begin with c: or d:",
            )

    def facts(self, now: int) -> Notification:
        """The attributes that the condition of a role tests: `name`, `via`, `claims.…`, `hour` and
        `weekday` (UTC)."""
        moment = datetime.fromtimestamp(now // 1_000_000, UTC)
        return Notification.of(
            {
                "name": self.name,
                "via": self.via,
                "hour": moment.hour,
                "weekday": moment.strftime("%A").lower(),
                "claims": {key: value for key, value in self.claims.items() if _is_plain(key, value)},
            }
        )


def _is_plain(key: Any, value: Any) -> bool:
    """Whether a claim is something that a filter can be about."""
    if not isinstance(key, str) or not key or "." in key:
        return False
    if isinstance(value, list | tuple | set | frozenset):
        return all(isinstance(each, _SCALARS) for each in value)
    return isinstance(value, _SCALARS)


NOBODY: Final = Principal(ANONYMOUS, via="none")
