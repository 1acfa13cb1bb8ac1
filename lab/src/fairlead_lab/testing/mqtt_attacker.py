"""A seeded client that tries everything over MQTT, as every principal and as none; with books of the outcome.

A broker with a policy serves MQTT on the loop of the attack; connections are objects without sockets. What may
happen is plain Python (`attacker.Allowed`): symbols are topics here. In the end the broker's log is compared with
it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, cast

import mqtt5
from mqtt5 import ConnAckReasonCode

from fairlead.errors import FairleadError
from fairlead.log.records import PUBLICATION, notification_in
from fairlead.model.packed import unpack
from fairlead.mqtt import serve
from fairlead.mqtt.connection import Connection
from fairlead.mqtt.serving import Listener
from fairlead.network.addresses import Address
from fairlead.network.server import Server
from fairlead.network.settings import BrokerSettings
from fairlead.security.settings import Security
from fairlead_lab.testing.attacker import (
    MEMBERS,
    NAMES,
    OWNED,
    POLICY,
    SYMBOLS,
    Allowed,
    Books,
)
from fairlead_lab.testing.guarded import jwks, token

__all__ = ["POLICY_TEXT", "MqttAttack"]

SHARED: Final = "mqtt/$share/desk/#"
"""The durable subscriber of `$share/desk/#`."""
ROLES: Final[dict[str, Any]] = {
    name: {**role, "durables": [SHARED]} if name in ("ada", "bob") else role
    for name, role in POLICY["roles"].items()
}
POLICY_TEXT: Final = "\n".join(
    f"[roles.{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in role.items())
    for name, role in ROLES.items()
).replace("symbol", "topic")
TOKENS: Final = MEMBERS[:-1]
TOPICS: Final = (*SYMBOLS, *SYMBOLS, "IBM/x", "scope change", "$SYS/x", "ibm", "detection.ask")
TOPIC_FILTERS: Final = (
    *("#", "IBM", "SAP", "SUN", "+", "+/x", "$share/desk/#", "$share/other/#", "$share/desk/SUN", "$SYS/#"),
    *("$filter/#", "scopes"),
)
CONTENTS: Final = (
    "",
    "",
    'topic = "SUN"',
    'producer = "nyse"',
    "exists secret or true",
    "(",
    'not topic = "IBM"',
)
CLIENTS_MAX: Final = 10
TURNS: Final = 12
TWO: Final = (1, 2)
"""The numbers of the tokens that each principal has."""


class _Transport:
    """A transport that keeps what the broker writes."""

    def __init__(self) -> None:
        self.written, self.is_closing_now = b"", False
        self.connection: Connection | None = None

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.is_closing_now

    def close(self) -> None:
        if not self.is_closing_now:
            self.is_closing_now = True
            assert self.connection is not None
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)

    abort = close

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """It goes on."""

    resume_reading = pause_reading


@dataclass
class _Client:
    principal: str
    id: str
    connection: Connection
    transport: _Transport
    token: str
    is_accepted: bool = False
    sent: dict[int, tuple[str, str]] = field(default_factory=dict)
    """By packet id, the topic of a publication, and its number."""

    @property
    def is_there(self) -> bool:
        return self.is_accepted and not self.transport.is_closing_now


class MqttAttack:
    """One attack, which a seed decides about, on a broker of its own in a directory."""

    def __init__(self, path: Path, seed: int) -> None:
        self._random, self._seed = Random(seed), seed
        self.books, self.allowed = Books(), Allowed()
        path.mkdir(parents=True, exist_ok=True)
        (path / "policy.toml").write_text(POLICY_TEXT)
        (path / "keys.json").write_text(jwks())
        security = Security(policy=str(path / "policy.toml"), tokens=str(path / "keys.json"))
        self._settings = BrokerSettings("b", Address("127.0.0.1", 0), str(path / "b"), security=security)
        self._clients: list[_Client] = []
        self._tokens = {name: [token(name, jti=f"{name}-{number}") for number in TWO] for name in TOKENS}
        self._ids: deque[str] = deque(maxlen=20)
        """Client ids that somebody has used."""
        self._number = 0

    def run(self, tries: int) -> Books:
        """Try so many times, then read the log."""
        asyncio.run(self._run(tries))
        return self.books

    async def _run(self, tries: int) -> None:
        self.server = Server(self._settings)
        await self.server.start()
        try:
            async with serve(self.server, Address("127.0.0.1", 0)) as serving:
                self._listener: Listener = serving.listener
                policy = self.server.node.guard.policy
                assert policy is not None
                self._policy = policy
                for _ in range(tries):
                    attempt = self._random.choice(self._ATTEMPTS)
                    self.books.tried[attempt.__name__] += 1
                    attempt(self)
                    await self._settle()
                    self._look()
                for each in self._clients:
                    each.transport.close()
                await self._settle()
            self._read_the_log()
        finally:
            await self.server.stop()

    async def _settle(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)

    # -- attempts ----------------------------------------------------------------------------------------------

    def _shown(self, number: int) -> tuple[str, str | None, str]:
        """The principal that credentials prove, if any; the user's name and the password. Of the tokens of a
        principal, it is that of a number."""
        name = self._random.choice(TOKENS)
        good = self._tokens[name][number - 1]
        if self._random.random() < 0.75:
            return name, None, good
        return self._random.choice(
            (
                lambda: ("", None, ""),
                lambda: ("", None, token(name, lasts_s=-1)),
                lambda: ("", None, token(name, key=b"another key of thirty-two bytes!")),
                lambda: ("", None, token(name, aud="another")),
                lambda: ("", None, good[:-2]),
                lambda: ("", name, good),
                lambda: ("", "Internal", good),
                lambda: ("", f"{name}\r\nAuthorization: Bearer", good),
                lambda: ("", "root", "root"),
            )
        )()

    def _connect(self) -> None:
        number = self._random.choice(TWO)
        who, user, password = self._shown(number)
        id = self._random.choice((f"{who}~1", who, "", "phone", *NAMES, *self._ids))
        self._connect_as(who, number, id, user, password)

    def _take_over(self) -> None:
        """Take over a session by a token of the same principal that was revoked."""
        client = self._client()
        if client is not None:
            number = next(each for each in TWO if client.token != f"token:{client.principal}-{each}")
            self._decide(f"token:{client.principal}-{number}")
            shown = self._tokens[client.principal][number - 1]
            self._connect_as(client.principal, number, client.id, None, shown)

    def _connect_as(self, who: str, number: int, id: str, user: str | None, password: str) -> None:
        will = None
        if self._random.random() < 0.4:
            will = mqtt5.Will(self._random.choice(TOPICS), payload=self._payload(who), qos=mqtt5.QoS(1))
        packet = mqtt5.ConnectPacket(
            id.replace("\x00", "?"),
            username=user,
            password=password.encode() or None,
            clean_start=self._random.random() < 0.5,
            will=will,
            session_expiry_interval=self._random.choice((0, 0, 100)),
            user_properties=[("name", "root"), ("role", "broker")] if self._random.random() < 0.2 else None,
        )
        others = [each for each in self._clients if each.is_there]
        connection, transport = Connection(self._listener), _Transport()
        transport.connection = connection
        connection.connection_made(cast(Any, transport))
        client = _Client(who, id, connection, transport, f"token:{who}-{number}")
        self._clients.append(client)
        self._hear(client, packet.write())
        answer = self._packets(client)
        refused = any(isinstance(each, mqtt5.ConnAckPacket) and int(each.reason_code) for each in answer)
        if refused:
            ended = [each.principal for each in others if not each.is_there]
            self.books.check("refused connection", allowed=not ended, details=(who, id, ended))
        self._ids.append(id)
        if len(self._clients) > CLIENTS_MAX:
            self._clients.pop(0).transport.close()

    def _client(self) -> _Client | None:
        self._clients = [each for each in self._clients if not each.transport.is_closing_now]
        there = [each for each in self._clients if each.is_accepted]
        return self._random.choice(there) if there else None

    def _hear(self, client: _Client, data: bytes) -> None:
        if not client.transport.is_closing_now:
            client.connection.data_received(data)

    def _payload(self, who: str) -> bytes:
        self._number += 1
        content = {"by": who, "number": self._number, "producer": "nyse", "symbol": "IBM", "topic": "IBM"}
        return json.dumps(content).encode()

    def _publish(self) -> None:
        client = self._client()
        if client is None:
            return
        qos, topic = self._random.choice((0, 1, 1, 2)), self._random.choice(TOPICS)
        payload = self._payload(client.principal)
        id = self._number % 60_000 + 1
        names = [("producer", "nyse"), ("topic", "IBM"), ("id", "1")]
        packet = mqtt5.PublishPacket(
            topic,
            payload,
            qos=mqtt5.QoS(qos),
            packet_id=id if qos else None,
            retain=self._random.random() < 0.2,
            user_properties=names if self._random.random() < 0.3 else None,
            response_topic="SUN" if self._random.random() < 0.1 else None,
        )
        if qos == 1:
            client.sent[id] = (topic, str(self._number))
        with contextlib.suppress(ValueError):
            self._hear(client, packet.write())

    def _subscribe(self) -> None:
        client = self._client()
        if client is not None:
            text, content = self._random.choice(TOPIC_FILTERS), self._random.choice(CONTENTS)
            options = mqtt5.TopicFilter(text, max_qos=mqtt5.QoS(self._random.choice((0, 1))))
            properties = [("filter", content)] if content else None
            packet = mqtt5.SubscribePacket(
                self._random.randint(1, 200), [options], user_properties=properties
            )
            self._hear(client, packet.write())

    def _unsubscribe(self) -> None:
        client = self._client()
        if client is not None:
            before, session = self._durables(), client.connection.session
            there = [text for text in TOPIC_FILTERS if session is not None and session.to(text) is not None]
            texts = there if there and self._random.random() < 0.5 else TOPIC_FILTERS
            packet = mqtt5.UnsubscribePacket(self._random.randint(1, 200), [self._random.choice(texts)])
            self._hear(client, packet.write())
            for name in before - self._durables():
                owns = self._owns(client.principal, "durables", name)
                self.books.check(
                    "end of a durable subscriber", allowed=owns, details=(client.principal, name)
                )

    def _acknowledge(self) -> None:
        client = self._client()
        if client is not None:
            kind = self._random.choice(
                (mqtt5.PubAckPacket, mqtt5.PubRecPacket, mqtt5.PubCompPacket, mqtt5.PubRelPacket)
            )
            self._hear(client, kind(self._random.randint(1, 20)).write())

    def _babble(self) -> None:
        client = self._client()
        if client is not None:
            self._hear(client, self._random.randbytes(self._random.randint(1, 30)))

    def _leave(self) -> None:
        client = self._client()
        if client is not None:
            code = self._random.choice(
                (
                    mqtt5.DisconnectReasonCode.NORMAL_DISCONNECTION,
                    mqtt5.DisconnectReasonCode.DISCONNECT_WITH_WILL_MESSAGE,
                )
            )
            if self._random.random() < 0.5:
                self._hear(client, mqtt5.DisconnectPacket(reason_code=code).write())
            else:
                client.transport.close()

    def _change_policy(self) -> None:
        """Revoke somebody, a token, or nobody. From this moment on it holds."""
        some = (*TOKENS, *(f"token:{name}-{number}" for name in TOKENS for number in TWO), "", "", "", "")
        self._decide(self._random.choice(some))

    def _decide(self, revoked: str) -> None:
        self.allowed.revoked = {revoked} - {""}
        policy = self._policy.revoking(*self.allowed.revoked)
        self.server.node.guard.decide_by(policy, time.time_ns() // 1_000)

    _ATTEMPTS: Final = (
        *(_connect,) * 10,
        _take_over,
        *(_publish,) * 24,
        *(_subscribe,) * 10,
        *(_unsubscribe,) * 2,
        *(_acknowledge,) * 4,
        _babble,
        *(_leave,) * 2,
        *(_change_policy,) * 2,
    )

    # -- what came of it ---------------------------------------------------------------------------------------

    @staticmethod
    def _owns(who: str, kind: str, name: str) -> bool:
        if kind == "durables":
            return name.startswith(f"{who}~") or (name == SHARED and who in ("ada", "bob"))
        return name == who or name.startswith(f"{who}~") or name in OWNED[kind].get(who, ())

    def _durables(self) -> set[str]:
        return {name for name, each in self.server.node.durables.items() if not each.ends}

    def _is_valid(self, client: _Client) -> bool:
        return self.allowed.connect(client.principal) and client.token not in self.allowed.revoked

    def _packets(self, client: _Client) -> list[Any]:
        """The packets that the broker has sent a client since that was looked at."""
        found: list[Any] = []
        while client.transport.written:
            packet, length = mqtt5.read(memoryview(client.transport.written))
            client.transport.written = client.transport.written[length:]
            found.append(packet)
            self._came(client, packet)
        return found

    def _came(self, client: _Client, packet: Any) -> None:
        who = client.principal
        match packet:
            case mqtt5.ConnAckPacket() if packet.reason_code == ConnAckReasonCode.SUCCESS:
                client.is_accepted = True
                session = client.connection.session
                name = "" if session is None else session.name
                allowed = self._is_valid(client) and name.startswith(f"{who}~mqtt/")
                self.books.check("connection", allowed=allowed, details=(who, client.id, name))
            case mqtt5.PublishPacket():
                allowed = client.token not in self.allowed.revoked and self.allowed.read(who, packet.topic)
                self.books.check("delivery", allowed=allowed, details=(who, packet.topic, packet.payload))
            case mqtt5.PubAckPacket() if packet.packet_id in client.sent and int(packet.reason_code) < 0x80:
                topic, number = client.sent.pop(packet.packet_id)
                # It may have been admitted before a change of the policy.
                allowed = Allowed().write(who, who, topic)
                self.books.check("publication", allowed=allowed, details=(who, topic, number))
            case _:
                pass

    def _look(self) -> None:
        for client in self._clients:
            self._packets(client)
            if client.is_there:
                details = (client.principal, client.id, self.allowed.revoked)
                self.books.check("stay", allowed=self._is_valid(client), details=details)
        for name, durable in self.server.node.durables.items():
            if durable.session is not None and not durable.ends:
                who = self.server.node.guard.principal(durable.session.client).name
                self.books.check(
                    "durable subscriber", allowed=self._owns(who, "durables", name), details=(who, name)
                )

    def _read_the_log(self) -> None:
        """Of whatever is in the log, `by` is the principal whose credentials were shown."""
        ledger = self.server.node.ledger
        assert ledger is not None
        with ledger.reader(0, PUBLICATION) as reader:
            for record in reader:
                with contextlib.suppress(FairleadError):
                    notification = unpack(notification_in(record))
                    by = str(notification.get("data.by"))
                    allowed = Allowed().write(by, notification.producer, notification.get("topic"))
                    self.books.check("record", allowed=allowed, details=(by, notification))
