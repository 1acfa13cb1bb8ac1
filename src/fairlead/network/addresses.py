"""The addresses of brokers, and the certificates for connections to them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, Final, NamedTuple
from urllib.parse import urlsplit

from fairlead.configuration import PATH, Key
from fairlead.errors import NetworkError

__all__ = ["HOST", "PORT", "Address", "Tls", "free_ports"]

HOST: Final = "127.0.0.1"
PORT: Final = 7400
PLAIN, SECURE = SCHEMES = ("fairlead", "fairleads")
"""The schemes of addresses: without encryption, and with."""


class Address(NamedTuple):
    """The address at which a broker listens or is called."""

    host: str
    port: int
    secure: bool = False

    @classmethod
    def parse(cls, given: str) -> Address:
        """`fairlead://host:7400`, `fairleads://host` with TLS, or just `host:7400`, `:7400`, `host`."""
        try:
            parts = urlsplit(given if "://" in given else f"{PLAIN}://{given}")
            port = parts.port
        except ValueError:  # half an address of IPv6, or a port that is none
            parts = None
        if parts is None or parts.path.strip("/") or parts.query:
            raise NetworkError(f"{given}: not the address of a broker", hint="write fairlead://host:7400")
        if parts.scheme not in SCHEMES:
            raise NetworkError(
                f"{given}: not the address of a broker",
                hint="write fairlead://host:7400, or fairleads:// for TLS",
            )
        return cls(parts.hostname or "127.0.0.1", PORT if port is None else port, parts.scheme == SECURE)

    @property
    def is_loopback(self) -> bool:
        """Whether only programs of the same machine can get there."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{SECURE if self.secure else PLAIN}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Tls:
    """With which certificates a broker, or a client, speaks."""

    certificate: Annotated[
        str | None, Key("the file with the broker's certificate, and those that vouch for it", PATH)
    ] = None
    key: Annotated[str | None, Key("the file with its key", PATH)] = None
    authority: Annotated[
        str | None, Key("the file with the certificates that are trusted", PATH, shown="the system's")
    ] = None
    mutual: Annotated[
        bool, Key("clients and brokers that connect have to show a certificate of the `authority`, too")
    ] = False
    names: Annotated[
        bool, Key("a neighbour's certificate has to be for its name: as the CN, or a DNS name")
    ] = False


def free_ports(hosts: Sequence[str]) -> list[int]:
    """A port for each host that nobody listens on now. (Held all at once, so that they are different ones.)"""
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        for host in hosts:
            probe = held.enter_context(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET))
            try:
                probe.bind((host, 0))
            except OSError as error:
                raise NetworkError(f"cannot listen at {host}: {error.strerror}") from None
            ports.append(probe.getsockname()[1])
        return ports
