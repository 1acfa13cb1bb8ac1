"""A broker with an access policy that serves HTTP, and requests with the tokens of principals."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from fairlead.console import serve
from fairlead.log.records import PUBLICATION, notification_in
from fairlead.model import Notification
from fairlead.model.packed import unpack
from fairlead.network.addresses import Address
from fairlead.network.server import Server
from fairlead.network.settings import BrokerSettings
from fairlead.security.credentials import bearer
from fairlead.security.passwords import write_entry
from fairlead.security.settings import Security
from fairlead_lab.testing.brokers import PATIENCE_S
from fairlead_lab.testing.guarded import POLICY, jwks, token

__all__ = ["PASSWORD", "Web"]

PASSWORD: Final = "correct horse"
"""Ada's."""


class Web:
    """A broker with a policy and HTTP, on a loop in a thread."""

    def __init__(self, path: Path, policy: str = POLICY, **settings: Any) -> None:
        (path / "policy.toml").write_text(policy)
        (path / "keys.json").write_text(jwks())
        write_entry(path / "passwords", "ada", PASSWORD)
        security = Security(
            policy=str(path / "policy.toml"),
            tokens=str(path / "keys.json"),
            passwords=str(path / "passwords"),
            log=str(path / "access.jsonl"),
        )
        self._settings = BrokerSettings(
            "b", Address("127.0.0.1", 0), str(path / "b"), security=security, **settings
        )
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)

    async def _main(self) -> None:
        self.loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self.server = Server(self._settings)
        await self.server.start()
        try:
            address = Address("127.0.0.1", 0, self._settings.tls is not None)
            async with serve(self.server, address) as serving:
                self.port = serving.port
                self._ready.set()
                await self._over.wait()
        finally:
            await self.server.stop()

    def do(self, what: Callable[[], object]) -> None:
        """Do something on the broker's loop."""

        async def done() -> None:
            what()

        asyncio.run_coroutine_threadsafe(done(), self.loop).result(PATIENCE_S)

    def published(self) -> Iterator[Notification]:
        """The publications in the log."""
        ledger = self.server.node.ledger
        assert ledger is not None
        with ledger.reader(0, PUBLICATION) as reader:
            for record in reader:
                yield unpack(notification_in(record))

    def close(self) -> None:
        """End the broker."""
        self.loop.call_soon_threadsafe(self._over.set)
        self._thread.join(PATIENCE_S)

    @contextlib.contextmanager
    def request(
        self,
        method: str,
        path: str,
        principal: str | None = None,
        *,
        body: Any = None,
        context: ssl.SSLContext | None = None,
        **headers: str,
    ) -> Iterator[http.client.HTTPResponse]:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if principal is not None:
            given["Authorization"] = str(bearer(token(principal)))
        if body is not None:
            given["Content-Type"] = "application/json"
        connection = (
            http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
            if context is None
            else http.client.HTTPSConnection("localhost", self.port, timeout=PATIENCE_S, context=context)
        )
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body), given)
            yield connection.getresponse()

    def status(self, *given: Any, **named: Any) -> int:
        with self.request(*given, **named) as answer:
            return answer.status
