"""Credentials of connections become principals: at once, or in a thread beside the event loop, where a password is
to be checked, or the key of a token fetched from its issuer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from fairlead.errors import NotAuthenticated
from fairlead.security import Principal
from fairlead.security.credentials import Authenticator
from fairlead.security.settings import Security

__all__ = ["Authentication"]

WAITING_MAX: Final = 64
"""The number of passwords that wait to be checked: a flood of wrong ones takes one processor, and no more."""


class Authentication:
    """The credentials of one broker's connections. PolicyError where the files with keys are wrong."""

    def __init__(
        self, security: Security, broker: str, loop: asyncio.AbstractEventLoop, clock: Callable[[], int]
    ) -> None:
        self._authenticator = security.authenticator()
        self._broker, self._loop, self._clock = broker, loop, clock
        self._executor: ThreadPoolExecutor | None = None  # not the loop's, where the log is synced
        self._fetching: ThreadPoolExecutor | None = None
        self._waiting = 0
        self.on_refused: Callable[[str], None] = lambda reason: None
        """Called on the loop, with the reason, when credentials are not accepted."""

    @property
    def own(self) -> str:
        """Credentials of the broker with itself."""
        return self._authenticator.own

    def renewed_by(self, security: Security) -> Authenticator:
        """The verifier by the files as they are now, with the keys of the issuer that are known. PolicyError."""
        return security.authenticator(self._authenticator.remote)

    def take_keys_of(self, authenticator: Authenticator) -> None:
        """Check by these tokens and passwords from now on."""
        self._authenticator.take_keys_of(authenticator)

    def look_after(self) -> None:
        """From time to time: fetch the keys of the issuer anew, beside the loop."""
        remote = self._authenticator.remote
        if remote is not None and remote.is_due:
            self._fetcher().submit(remote.look)

    def _fetcher(self) -> ThreadPoolExecutor:
        if self._fetching is None:
            self._fetching = ThreadPoolExecutor(1, "keys of tokens")
        return self._fetching

    def is_slow(self, authorization: str) -> bool:
        """Whether it takes long to check these."""
        return self._authenticator.is_slow(authorization)

    def principal(self, authorization: str, certificate: Mapping[str, Any] | None) -> Principal:
        """The principal of what a connection shows; NotAuthenticated."""
        return self._recorded(lambda: self._check(authorization, certificate))

    def _check(self, authorization: str, certificate: Mapping[str, Any] | None) -> Principal:
        return self._authenticator.principal(authorization, certificate, self._clock(), self._broker)

    def _recorded(self, check: Callable[[], Principal]) -> Principal:
        try:
            return check()
        except NotAuthenticated as error:
            self.on_refused(str(error))
            raise

    def renewed(self, authorization: str, now: int) -> Principal:
        """The principal of what a client shows later: a token."""
        if self._authenticator.may_know_more(authorization):
            self._fetcher().submit(self._look)
            raise NotAuthenticated("the keys of the issuer are read anew: try again")
        if self.is_slow(authorization):
            raise NotAuthenticated("connect again with another password")
        return self._recorded(lambda: self._authenticator.principal(authorization, None, now))

    def check_beside(self, authorization: str) -> asyncio.Future[Principal]:
        """Check a password beside the loop, or a token whose key is to be fetched."""
        if self._waiting >= WAITING_MAX:
            raise NotAuthenticated("too many passwords are being checked: try again")
        if self._authenticator.may_know_more(authorization):
            checking = self._loop.run_in_executor(self._fetcher(), self._check_anew, authorization)
        else:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, "passwords")
            checking = self._loop.run_in_executor(self._executor, self._check, authorization, None)
        self._waiting += 1
        checking.add_done_callback(self._done)
        return checking

    def _check_anew(self, authorization: str) -> Principal:
        self._look()
        return self._check(authorization, None)

    def _look(self) -> None:
        remote = self._authenticator.remote
        if remote is not None:
            remote.look()

    def _done(self, checking: asyncio.Future[Principal]) -> None:
        self._waiting -= 1
        if not checking.cancelled() and isinstance(error := checking.exception(), NotAuthenticated):
            self.on_refused(str(error))

    def close(self) -> None:
        """Check nothing more."""
        for each in (self._executor, self._fetching):
            if each is not None:
                each.shutdown(wait=False, cancel_futures=True)
