"""The sites whose pages may use HTTP here: browsers send requests for the pages of any site.

A request is for this host, not for a name that somebody else lets lead here (DNS rebinding). It comes from a page
of this host or of a configured site, or from no page. A durable subscription is read by requests alone that no
other page can make: a page can have a browser get any address, as an image, and so read what others wait for.
"""

from __future__ import annotations

import socket
from fnmatch import fnmatchcase
from functools import cached_property
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from fairlead.console.problems import Problem
from fairlead.network.settings import BrokerSettings

__all__ = ["Sites"]

SINGLE: Final = ("host", "origin", "sec-fetch-site", "referer")
"""Headers that decide here: a request has each of them once, at most."""
FROM_HERE: Final = ("same-origin", "none")
"""The values of `Sec-Fetch-Site` for a page of this host, and for a user who entered the address."""
BROWSERS: Final = "mozilla/"
"""The beginning of every browser's `User-Agent`; pages of other sites cannot change it."""


class Sites:
    """The hosts and sites of one broker's HTTP."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings

    def check_host(self, request: HTTPConnection) -> None:
        """Problem 421, where a request is for another host. With TLS, the certificate has shown whose it is."""
        for name in SINGLE:
            if len(request.headers.getlist(name)) > 1:
                raise Problem(400, f"a request has one {name.title()}")
        host = _host_in(request.headers.get("host", ""))
        if host and not _is_secure(request) and not self._is_here(host):
            raise Problem(421, f"this is not {host}; a broker that has that name lists it in [http] hosts")

    def check_page(self, request: HTTPConnection, *, is_durable: bool = False) -> None:
        """Problem 403, where the page of another site makes the request, or may make it."""
        self.check_host(request)
        headers = request.headers
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None:
            if not self._is_ours(origin, request):
                raise Problem(403, f"a page of {origin} may not do this here")
        elif site is not None:
            if site not in FROM_HERE:
                raise Problem(403, "a page of another site may not do this here")
        elif is_durable and headers.get("user-agent", "").lower().startswith(BROWSERS):
            # A browser that does not say which page it is: over plain HTTP they do not.
            has_token = headers.get("authorization", "").lower().startswith("bearer ")
            if not has_token and not self._is_ours(headers.get("referer", ""), request):
                raise Problem(403, "which page reads this durable subscription? show a token, or use TLS")

    def _is_ours(self, url: str, request: HTTPConnection) -> bool:
        parts, is_secure = urlsplit(url), _is_secure(request)
        is_own = bool(parts.netloc) and parts.netloc == request.headers.get("host")
        # Anybody on the way can make a page in clear under this name.
        is_own = is_own and (parts.scheme == "https" or not is_secure)
        return is_own or f"{parts.scheme}://{parts.netloc}" in self._settings.origins

    def _is_here(self, host: str) -> bool:
        try:
            ip_address(host)
        except ValueError:
            return host in self._names or any(fnmatchcase(host, each) for each in self._settings.hosts)
        return True  # no name has led here

    @cached_property
    def _names(self) -> frozenset[str]:
        """The names of this machine, and of the sites that are configured."""
        settings = self._settings
        addresses = [each.host for each in (settings.listen, settings.http) if each is not None]
        sites = [urlsplit(each).hostname or "" for each in settings.origins]
        return frozenset(each.lower() for each in ("localhost", socket.gethostname(), *addresses, *sites))


def _is_secure(request: HTTPConnection) -> bool:
    return request.scope["scheme"] in ("https", "wss")


def _host_in(header: str) -> str:
    """The host of a `Host` header, without its port."""
    try:
        return (urlsplit(f"//{header}").hostname or header).lower()
    except ValueError:  # half an address of IPv6
        return header.lower()
