"""One generator of load for several brokers, on raw sockets, so that no client library is measured.

    python -m fairlead_lab.bench.load      a line of JSON in for each measurement, a line out

It speaks just enough of three protocols (Fairlead's, MQTT 3.1.1, NATS with JetStream) to subscribe, publish and
count. All messages of a run have the same length, so receiving is counting bytes: the generator is quick, and the
same for all. Not more than `window` messages are under way at a time, to whoever is slowest.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import repeat
from random import Random
from typing import Any, Final, Protocol

from fairlead.model import Notification
from fairlead.model.packed import pack
from fairlead.network import wire

__all__ = ["PROTOCOLS", "Load", "Measured", "Spec"]

TOPIC: Final = "bench"
READ: Final = 1 << 18
DEADLINE_S: Final = 120.0
WARM: Final = 1_000
CUTS: Final = 1_000
"""The number of prices that filters tell apart, where they look at it: from 0 to 100."""
LATE_S: Final = 20.0
"""If nothing has come for so long, what is missing is lost."""


@dataclass(frozen=True, slots=True)
class Spec:
    """The load to measure."""

    protocol: str
    publish_port: int
    subscribe_port: int
    messages: int = 200_000
    size: int = 128
    subscribers: int = 1
    others: int = 0
    """Further subscriptions, that match nothing."""
    window: int = 10_000
    first: int = 1
    """The number of the first message."""
    rate: int | None = None
    """Messages per second; as many as possible if none is given."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of a load."""

    delivered: int
    seconds: float
    median_us: float
    p99_us: float


class Speaker(Protocol):
    """The protocol of one kind of broker."""

    def hello(self, name: str) -> bytes: ...

    def subscribe(self, topics: list[str], number: int) -> bytes: ...

    def is_ready(self, raw: bytes, number: int) -> bool:
        """Whether the answer to hello has come, or the one to the subscription of a number."""

    def publications(self, spec: Spec) -> list[bytes]: ...

    def arriving(self, spec: Spec) -> int:
        """The number of bytes that come for each message: to a subscriber, or as an acknowledgement."""


class Fairlead:
    """Fairlead without acknowledgements."""

    acknowledged = False

    def hello(self, name: str) -> bytes:
        return wire.control(wire.Hello(wire.VERSION, "client", name, "block"))

    def subscribe(self, topics: list[str], number: int) -> bytes:
        return b"".join(
            wire.control(wire.Subscribe(number + place, f"s{place:06}", self._filter(topic, place)))
            for place, topic in enumerate(topics, 1 - len(topics))
        )

    def _filter(self, topic: str, place: int) -> str:
        return f'topic = "{topic}"' + (" and price > 10" if topic != TOPIC else "")

    def is_ready(self, raw: bytes, number: int) -> bool:
        frames = wire.Frames(1 << 24).feed(raw)
        messages = [wire.parse_control(payload) for kind, payload in frames if kind == wire.CONTROL]
        for message in messages:
            if isinstance(message, wire.Bye | wire.Refused):
                raise RuntimeError(message.reason)
        if not number:
            return bool(messages)
        return any(isinstance(message, wire.Done) and message.number == number for message in messages)

    def publications(self, spec: Spec) -> list[bytes]:
        return [
            wire.publish(
                number if self.acknowledged else 0,
                pack(replace(notification, producer="load", id=f"{number:09}")),
            )
            for number, notification in enumerate(self._notifications(spec), spec.first)
        ]

    def _notifications(self, spec: Spec) -> Iterable[Notification]:
        """The notifications to publish, but for producer and id."""
        return repeat(Notification.of({"topic": TOPIC, "payload": "x" * spec.size}), spec.messages)

    def arriving(self, spec: Spec) -> int:
        packed = self.publications(replace(spec, messages=1))[0][13:]
        return len(wire.deliver(0, wire.deliver_head(("s000000",)), packed))


class Varied(Fairlead):
    """Fairlead, where all filters look at a price as well, and no two publications need have the same."""

    def _filter(self, topic: str, place: int) -> str:
        return f'topic = "{topic}" and price >= {-place % CUTS * 100 / CUTS if topic != TOPIC else 0}'

    def _notifications(self, spec: Spec) -> Iterable[Notification]:
        # Each is equally long: no price is a whole number.
        prices, payload = Random(spec.first), "x" * spec.size
        for _ in range(spec.messages):
            price = (prices.randrange(10_000) + 0.5) / 100
            yield Notification.of({"topic": TOPIC, "price": price, "payload": payload})


class Durable(Fairlead):
    """Fairlead with acknowledgements: what is delivered was safe before."""

    acknowledged = True


class Mqtt:
    """MQTT 3.1.1, at most once."""

    def hello(self, name: str) -> bytes:
        body = _mqtt_text("MQTT") + b"\x04\x02\x00\x00" + _mqtt_text(name)
        return b"\x10" + _mqtt_length(len(body)) + body

    def subscribe(self, topics: list[str], number: int) -> bytes:
        packets = []
        for start in range(0, len(topics), 1_000):
            part = topics[start : start + 1_000]
            last = start + len(part) == len(topics)
            body = (number if last else number + 1_000 + start // 1_000).to_bytes(2, "big")
            body += b"".join(_mqtt_text(topic) + b"\x00" for topic in part)
            packets.append(b"\x82" + _mqtt_length(len(body)) + body)
        return b"".join(packets)

    def is_ready(self, raw: bytes, number: int) -> bool:
        position, found = 0, False
        while position < len(raw):
            length, start = _mqtt_read_length(raw, position + 1)
            if start + length > len(raw):
                return False
            kind = raw[position] & 0xF0
            if kind == 0x20 and raw[start + 1]:
                raise RuntimeError(f"refused with code {raw[start + 1]}")
            found = found or (kind == 0x20 if not number else _is_suback(raw, position, start, number))
            position = start + length
        return found

    def publications(self, spec: Spec) -> list[bytes]:
        body = _mqtt_text(TOPIC) + b"x" * spec.size
        return [b"\x30" + _mqtt_length(len(body)) + body] * spec.messages

    def arriving(self, spec: Spec) -> int:
        return len(self.publications(replace(spec, messages=1))[0])


def _is_suback(raw: bytes, position: int, start: int, number: int) -> bool:
    return raw[position] & 0xF0 == 0x90 and int.from_bytes(raw[start : start + 2], "big") == number


def _mqtt_text(text: str) -> bytes:
    raw = text.encode()
    return len(raw).to_bytes(2, "big") + raw


def _mqtt_length(length: int) -> bytes:
    out = bytearray()
    while True:
        length, low = divmod(length, 128)
        out.append(low | (0x80 if length else 0))
        if not length:
            return bytes(out)


def _mqtt_read_length(raw: bytes, position: int) -> tuple[int, int]:
    length, shift = 0, 0
    while position < len(raw):
        byte = raw[position]
        length |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if not byte & 0x80:
            return length, position
    return 1 << 40, position


class Nats:
    """NATS, at most once."""

    def hello(self, name: str) -> bytes:
        return b'CONNECT {"verbose":false,"pedantic":false,"headers":false}\r\nPING\r\n'

    def subscribe(self, topics: list[str], number: int) -> bytes:
        lines = [f"SUB {topic.replace('/', '.')} {place}" for place, topic in enumerate(topics, 1)]
        return ("\r\n".join([*lines, "PING"]) + "\r\n").encode()

    def is_ready(self, raw: bytes, number: int) -> bool:
        if b"-ERR" in raw:
            raise RuntimeError(raw.decode(errors="replace"))
        return raw.count(b"PONG\r\n") > bool(number)

    def publications(self, spec: Spec) -> list[bytes]:
        return [f"PUB {TOPIC} {spec.size}\r\n".encode() + b"x" * spec.size + b"\r\n"] * spec.messages

    def arriving(self, spec: Spec) -> int:
        return len(f"MSG {TOPIC} 1 {spec.size}\r\n") + spec.size + 2


class JetStream(Nats):
    """NATS with a stream that keeps messages, and acknowledges each."""

    def publications(self, spec: Spec) -> list[bytes]:
        """Each asks to be acknowledged."""
        return [f"PUB {TOPIC} ack {spec.size}\r\n".encode() + b"x" * spec.size + b"\r\n"] * spec.messages


PROTOCOLS: Final[dict[str, Callable[[], Speaker]]] = {
    "fairlead": Fairlead,
    "fairlead-durable": Durable,
    "fairlead-varied": Varied,
    "jetstream": JetStream,
    "mqtt": Mqtt,
    "nats": Nats,
}


# -- measuring ---------------------------------------------------------------------------------------------------


def _connected(speaker: Speaker, port: int, name: str) -> tuple[socket.socket, bytes]:
    link = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.sendall(speaker.hello(name))
    return link, _until_ready(speaker, link, b"", 0)


def _until_ready(speaker: Speaker, link: socket.socket, raw: bytes, number: int) -> bytes:
    deadline = time.monotonic() + DEADLINE_S
    while not speaker.is_ready(raw, number):
        more = link.recv(READ)
        if not more or time.monotonic() > deadline:
            raise RuntimeError(f"no answer, but {raw[-200:]!r}")
        raw += more
    return raw


class Load:
    """Connections that have subscribed, ready to measure again and again."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._speaker = speaker = PROTOCOLS[spec.protocol]()
        self._links: list[socket.socket] = []
        self._first = 1
        started = time.perf_counter()
        if spec.others:
            topics = [f"other/{number}" for number in range(spec.others)]
            self._subscribed("others", topics, spec.others)
        self.setup_s = time.perf_counter() - started
        """The time that the further subscriptions took."""
        self._receivers = [
            self._subscribed(f"receiver-{number}", [TOPIC], 1) for number in range(spec.subscribers)
        ]
        self._sender, _ = _connected(speaker, spec.publish_port, "sender")
        self._links.append(self._sender)
        if isinstance(speaker, JetStream):
            _make_stream(self._sender)
        self.measure(messages=WARM)  # whatever a broker does but once, it does now

    def _subscribed(self, name: str, topics: list[str], number: int) -> socket.socket:
        link, said = _connected(self._speaker, self._spec.subscribe_port, name)
        self._links.append(link)
        link.sendall(self._speaker.subscribe(topics, number))
        _until_ready(self._speaker, link, said, number)
        return link

    def measure(self, **changes: Any) -> Measured:
        """Publish and count, with these changes of what was asked for."""
        spec = replace(self._spec, first=self._first, **changes)
        self._first += spec.messages
        if isinstance(self._speaker, JetStream):
            return _acknowledged(spec, self._speaker, self._sender)
        return _run(spec, self._speaker, self._sender, self._receivers)

    def close(self) -> None:
        """Let all connections go."""
        for link in self._links:
            link.close()


def _run(spec: Spec, speaker: Speaker, sender: socket.socket, receivers: list[socket.socket]) -> Measured:
    frames = speaker.publications(spec)
    length, arriving = len(frames[0]), speaker.arriving(spec)
    raw = memoryview(b"".join(frames))
    came = dict.fromkeys((receiver.fileno() for receiver in receivers), 0)
    sent_at: list[float] = []
    latencies: list[float] = []
    selector = selectors.DefaultSelector()
    links = {link.fileno(): link for link in (sender, *receivers)}
    for link in links.values():
        link.setblocking(False)
        selector.register(link, selectors.EVENT_READ)
    started = last = time.perf_counter()
    sent = slowest = 0
    while slowest < spec.messages and time.perf_counter() - last < LATE_S:
        now = time.perf_counter()
        allowed = min(spec.messages, slowest + spec.window)
        if spec.rate is not None:
            allowed = min(allowed, int((now - started) * spec.rate) + 1)
        if sent < allowed * length:
            with contextlib.suppress(BlockingIOError):
                sent += sender.send(raw[sent : min(allowed * length, sent + READ)])
            whole = sent // length
            sent_at += [now] * (whole - len(sent_at))
        # Without work to do it waits; with a rate, only until the next message is due.
        is_waiting = sent >= allowed * length
        patience = 0.0 if not is_waiting else (1.0 if spec.rate is None else 1 / spec.rate)
        for key, _ in selector.select(patience):
            chunk = links[key.fd].recv(READ)
            if not chunk:
                raise RuntimeError("a connection was closed")
            if key.fd in came:
                before = came[key.fd] // arriving
                came[key.fd] += len(chunk)
                last = time.perf_counter()
                for number in range(before, came[key.fd] // arriving):
                    latencies.append(last - sent_at[number])
        slowest = min(came.values()) // arriving
    seconds = last - started
    latencies.sort()
    count = sum(each // arriving for each in came.values())
    return Measured(count, seconds, *_percentiles(latencies))


def _percentiles(ascending: list[float]) -> tuple[float, float]:
    if not ascending:
        return float("nan"), float("nan")
    last = len(ascending) - 1
    return ascending[last // 2] * 1e6, ascending[round(last * 0.99)] * 1e6


def _make_stream(sender: socket.socket) -> None:
    config = json.dumps({"name": "bench", "subjects": [TOPIC], "storage": "file", "num_replicas": 1})
    create = f"PUB $JS.API.STREAM.CREATE.bench made {len(config)}\r\n{config}\r\n"
    sender.sendall(b"SUB made 9\r\nSUB ack 8\r\n" + create.encode())
    said = b""
    while b'"config"' not in said:
        said += sender.recv(READ)
        if b'"error"' in said:
            raise RuntimeError(said.decode(errors="replace"))


def _acknowledged(spec: Spec, speaker: JetStream, sender: socket.socket) -> Measured:
    """The rate at which a stream makes messages safe: acknowledgements are counted, which is less work than
    deliveries.
    """
    frames = speaker.publications(spec)
    length, raw = len(frames[0]), memoryview(b"".join(frames))
    sender.setblocking(False)
    selector = selectors.DefaultSelector()
    selector.register(sender, selectors.EVENT_READ)
    sent = stored = 0
    tail = b""
    sent_at: list[float] = []
    latencies: list[float] = []
    started = last = time.perf_counter()
    while stored < spec.messages and time.perf_counter() - last < LATE_S:
        now = time.perf_counter()
        allowed = min(spec.messages, stored + spec.window) * length
        if sent < allowed:
            with contextlib.suppress(BlockingIOError):
                sent += sender.send(raw[sent : min(allowed, sent + READ)])
            sent_at += [now] * (sent // length - len(sent_at))
        for _ in selector.select(0.0 if sent < allowed else 1.0):
            chunk = tail + sender.recv(READ)
            count = chunk.count(b"MSG ack 8 ")
            tail = chunk[-9:] if not chunk.endswith(b"MSG ack 8 ") else b""
            last = time.perf_counter()
            latencies += [last - sent_at[number] for number in range(stored, stored + count)]
            stored += count
    latencies.sort()
    return Measured(stored, last - started, *_percentiles(latencies))


def main() -> None:
    """The first line of standard input is a spec, every further one changes of it: each is answered by a line."""
    load = Load(Spec(**json.loads(sys.stdin.readline())))
    print(json.dumps({"setup_s": load.setup_s}), flush=True)
    for line in sys.stdin:
        found = load.measure(**json.loads(line))
        print(json.dumps({name: getattr(found, name) for name in Measured.__slots__}), flush=True)
    load.close()


if __name__ == "__main__":
    main()
