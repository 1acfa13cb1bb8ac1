"""A broker that serves MQTT on a loop in a thread of its own, and clients that are not ours: paho's."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from fairlead.mqtt import serve
from fairlead.network.server import Server, _loop_factory
from fairlead.network.settings import Address, BrokerSettings

LOOPBACK = Address("127.0.0.1", 0)
PATIENCE_S = 30.0
THREE, FIVE = MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5


class Running:
    """A broker with MQTT, in a thread."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:  # the loop that brokers really run on
            runner.run(self._main())

    async def _main(self) -> None:
        self.loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self.server = Server(self._settings)
        await self.server.start()
        try:
            async with serve(self.server, LOOPBACK) as serving:
                self.serving, self.port = serving, serving.port
                self._ready.set()
                await self._over.wait()
        finally:
            await self.server.stop()

    @property
    def url(self) -> str:
        return self.server.url

    def stop(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: it has stopped already
            self.loop.call_soon_threadsafe(self._over.set)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def do(self, what: Callable[[], Any]) -> Any:
        """What a function returns on the broker's loop."""

        async def done() -> Any:
            return what()

        return asyncio.run_coroutine_threadsafe(done(), self.loop).result(PATIENCE_S)

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait on the broker's loop until something holds."""

        async def watch() -> None:
            async with asyncio.timeout(PATIENCE_S):
                while not condition():
                    await asyncio.sleep(0.002)

        asyncio.run_coroutine_threadsafe(watch(), self.loop).result(PATIENCE_S)


class Client:
    """A client of paho, whose callbacks are queues."""

    def __init__(self, port: int, name: str, version: MQTTProtocolVersion, **options: Any) -> None:
        self.version = version
        expiry, will = options.pop("expiry", None), options.pop("will", None)
        clean, properties = options.pop("clean", True), options.pop("properties", {})
        user = options.pop("user", None)
        more = {} if version == FIVE else {"clean_session": clean}
        self.client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=version, **more)
        self.messages: queue.Queue[paho.MQTTMessage] = queue.Queue()
        self._answers: queue.Queue[tuple[int, Any]] = queue.Queue()
        self._connected: queue.Queue[Any] = queue.Queue()
        self.disconnected: queue.Queue[Any] = queue.Queue()
        self.client.on_message = lambda client, user, message: self.messages.put(message)
        self.client.on_connect = lambda *given: self._connected.put(given)
        self.client.on_subscribe = lambda client, user, id, codes, properties: self._answers.put((id, codes))
        self.client.on_unsubscribe = lambda client, user, id, codes, properties: self._answers.put(
            (id, codes)
        )
        self.client.on_disconnect = lambda *given: self.disconnected.put(given[3])
        self.client.connect_timeout = PATIENCE_S
        if user is not None:
            self.client.username_pw_set(*user)
        if will is not None:
            self.client.will_set(**will)
        more = {}
        if version == FIVE:
            asked = Properties(PacketTypes.CONNECT)
            for key, value in {**properties, "SessionExpiryInterval": expiry}.items():
                if value is not None:
                    setattr(asked, key, value)
            more = {"clean_start": clean, "properties": asked}
        self.client.connect("127.0.0.1", port, keepalive=options.pop("keepalive", 60), **more)
        assert not options
        self.client.loop_start()
        _, _, self.flags, self.reason, self.properties = self._connected.get(timeout=PATIENCE_S)

    def subscribe(self, topic: str, qos: int = 1, **options: Any) -> list[int]:
        """The reason codes of the answer."""
        properties = None
        if self.version == FIVE:
            properties = Properties(PacketTypes.SUBSCRIBE)
            if "filter" in options:
                properties.UserProperty = ("filter", options.pop("filter"))
            if "number" in options:
                properties.SubscriptionIdentifier = options.pop("number")
            given = paho.SubscribeOptions(qos, **options)
            _, id = self.client.subscribe(topic, options=given, properties=properties)
        else:
            _, id = self.client.subscribe(topic, qos)
        return self._answer(id)

    def unsubscribe(self, topic: str) -> list[int]:
        _, id = self.client.unsubscribe(topic)
        return self._answer(id)

    def _answer(self, id: int | None) -> list[int]:
        got, codes = self._answers.get(timeout=PATIENCE_S)
        assert got == id
        return [each.value for each in codes]

    def publish(self, topic: str, payload: bytes | str = b"", qos: int = 1, **options: Any) -> None:
        """Publish, and return when that is acknowledged."""
        properties = None
        retain = options.pop("retain", False)
        if options:
            properties = Properties(PacketTypes.PUBLISH)
            for key, value in options.items():
                setattr(properties, key, value)
        sent = self.client.publish(topic, payload, qos, retain=retain, properties=properties)
        sent.wait_for_publish(PATIENCE_S)
        assert sent.is_published()

    def get(self) -> paho.MQTTMessage:
        return self.messages.get(timeout=PATIENCE_S)

    def got(self, count: int) -> list[tuple[str, bytes]]:
        """Topic and payload of the next messages."""
        return [(each.topic, each.payload) for each in (self.get() for _ in range(count))]

    def cut(self) -> None:
        """End the connection without a goodbye, and do not connect again."""
        self.client.loop_stop()
        connected = self.client.socket()
        if connected is not None:
            connected.shutdown(socket.SHUT_RDWR)
            connected.close()

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Start = Callable[..., Running]


@pytest.fixture(scope="package")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """`started(**settings)`: a running broker with MQTT, for as long as the tests run."""
    running: list[Running] = []

    def start(**settings: Any) -> Running:
        base = BrokerSettings("b", LOOPBACK, str(tmp_path_factory.mktemp("data")))
        running.append(Running(replace(base, **settings)))
        return running[-1]

    yield start
    for each in running:
        each.stop()


@pytest.fixture(scope="package")
def broker(started: Start) -> Running:
    """The broker that most tests share; each uses topics and client ids of its own."""
    return started()


@pytest.fixture
def client(broker: Running) -> Iterator[Callable[..., Client]]:
    """`client(name, version, **options)`: a connected client, which is disconnected when the test is over."""
    made: list[Client] = []

    def connect(name: str, version: int = 5, port: int = 0, **options: Any) -> Client:
        made.append(Client(port or broker.port, name, MQTTProtocolVersion(version), **options))
        return made[-1]

    yield connect
    for each in made:
        each.close()
