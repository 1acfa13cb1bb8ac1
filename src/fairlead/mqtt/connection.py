"""One connection of a client of MQTT: its packets on the one side, frames of the broker's node on the other.

The broker treats it as any client: its publications are admitted by the same seam, its subscriptions are the same
subscriptions, and what it is slow to take waits in the log, or is dropped by the same policy. So no rule is here.
What is here is what MQTT says about packets: ids, acknowledgements, and when a connection has to end.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, cast

import mqtt5
from mqtt5 import ConnAckReasonCode as Answer
from mqtt5 import DisconnectReasonCode as Why
from mqtt5 import PubAckReasonCode, SubAckReasonCode, UnsubAckReasonCode

from fairlead.errors import FairleadError, Forbidden, NotAuthenticated, ProtocolError, ValueRefused
from fairlead.filters.language import render
from fairlead.model.packed import pack, unpack
from fairlead.mqtt.codec import FIVE, Malformed, Packet, Reader, TooLarge, UnknownVersion, encode
from fairlead.mqtt.flow import Accept, Effect, Publish
from fairlead.mqtt.mapping import is_topic, matches
from fairlead.mqtt.sessions import MARKER, Session, Subscription
from fairlead.network import wire
from fairlead.network.inflow import Frame
from fairlead.network.memory import Holder
from fairlead.network.server import micros
from fairlead.network.sessions import Session as NodeSession
from fairlead.security import Principal
from fairlead.security.principals import NOBODY, SEPARATOR

if TYPE_CHECKING:
    from fairlead.mqtt.serving import Listener

__all__ = ["Connection"]

log: Final = logging.getLogger(__name__)

HEAD: Final = 5
"""The bytes of a frame before its payload; between objects of one process only the payload is handed on."""
ANY_LENGTH: Final = 1 << 32
RECEIVE_MAX: Final = 1_000
"""The number of publications at QoS 1 and 2 that may be under way from a client."""
ALIASES: Final = 100
"""The number of topic aliases that a client may use."""
INSTALL_S: Final = 5.0
"""The time that brokers that are away are waited for before a subscription is acknowledged."""
LINGER_S: Final = 5.0
"""The time a connection that has ended may take to send what was written."""
SILENCES: Final = 1.5
"""A client may be silent for so many times its keep-alive."""
RETRY_S: Final = 0.005
NEVER: Final = 0xFFFF_FFFF
"""The session expiry interval of a session that does not expire."""
CLIENT_MAX: Final = 400
"""The longest client id, in bytes: names at the broker are made of it."""


@dataclass(slots=True)
class _Publishing:
    """A publication that its client has not been answered."""

    number: int
    qos: int
    id: int
    name: str = ""
    reason: int | None = None
    """The reason code, once it is known."""
    text: str = ""


class Connection(asyncio.Protocol):
    """A connection, from the first byte on."""

    def __init__(self, listener: Listener) -> None:
        self._listener, self._server = listener, listener.server
        self._node = listener.server.node
        self._reader = Reader(listener.packet_max)
        self._frames = wire.Frames(ANY_LENGTH)
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._alive: asyncio.TimerHandle | None = None
        self._keep_s = 0.0
        self._heard = 0.0
        self._packets: deque[Packet] = deque()
        """Packets that wait until the client is welcome."""
        self._is_busy = False
        """Whether credentials are being checked, or an earlier session is being removed."""
        self._will_leave = False
        """Whether the client has said goodbye."""
        self._connect: mqtt5.ConnectPacket | None = None
        self.session: Session | None = None
        self.node_session: NodeSession | None = None
        self._producer = ""
        self._packet_max: int | None = None
        self._aliases: dict[int, str] = {}
        self._numbers = 0
        self._requests: dict[int, Callable[[FairleadError | None], None]] = {}
        self._publishing: deque[_Publishing] = deque()
        self._frames_out: list[Frame] = []
        self._out: list[bytes] = []
        self._parts: dict[tuple[str, int], int] = {}
        self._is_paused = False
        self._is_read = True
        self._is_over = False
        self.closed: asyncio.Future[None] = listener.server.loop.create_future()

    # -- what the loop says ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = made = cast(asyncio.Transport, transport)  # uvloop's are no subclasses
        if self._server.is_stopped or self._listener.is_closed or self._server.why_crowded():
            made.abort()
            return
        self._listener.connections.add(self)
        self._deadline = self._server.loop.call_later(self._node.limits.handshake_seconds, self.abort)

    def data_received(self, data: bytes) -> None:
        self._heard = self._server.loop.time()
        self._node.memory.grow(len(data))
        try:
            for packet in self._reader.feed(data):
                if self._is_over:
                    return
                if self._is_busy:
                    self._packets.append(packet)
                else:
                    self._take(packet)
        except UnknownVersion:
            self._refuse(Answer.UNSUPPORTED_PROTOCOL_VERSION, version=4)
        except TooLarge as error:
            self._end(Why.PACKET_TOO_LARGE, str(error))
        except Malformed as error:
            self._end(Why.MALFORMED_PACKET, str(error))
        except ProtocolError as error:
            self._end(Why.PROTOCOL_ERROR, str(error))
        self._hand_over()
        self._bound_reading()

    def eof_received(self) -> bool:
        return False

    def resume_writing(self) -> None:
        if self.node_session is not None and not self.node_session.ended:
            self._node.drained(self.node_session)
            self._server.schedule()

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.connections.discard(self)
        for timer in (self._deadline, self._lingering, self._alive):
            if timer is not None:
                timer.cancel()
        self._leave()
        self._transport = None
        if not self.closed.done():
            self.closed.set_result(None)

    # -- what the node asks of its peer ------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        for kind, payload in self._frames.feed(data):
            if kind == wire.DELIVER:
                self._deliver(*wire.parse_deliver(payload))
            elif kind == wire.STORED:
                self._stored(wire.parse_numbered(payload)[0])
            elif kind == wire.CONTROL:
                self._hear_node(wire.parse_control(payload))
        self._flush()
        self._hand_over_later()

    def buffered(self) -> int:
        waiting = 0 if self._transport is None else self._transport.get_write_buffer_size()
        if self.session is not None and self.session.connection is self:
            waiting += self.session.flow.size
        return waiting

    def close(self) -> None:
        """The node has ended the session."""
        self._flush()
        self._shut()

    def pause(self) -> None:
        """Publications wait; what else the client says is answered."""
        self._is_paused = True
        self._bound_reading()

    def resume(self) -> None:
        self._is_paused = False
        self._bound_reading()

    def _bound_reading(self) -> None:
        """Read as long as what waits is not too much."""
        session, transport = self.node_session, self._transport
        if transport is None or transport.is_closing():
            return
        held = 0 if session is None else session.inflow.size
        is_read = not (self._is_paused and held > self._node.limits.buffer_bytes)
        if self._is_busy:
            is_read = len(self._packets) < RECEIVE_MAX
        if is_read != self._is_read:
            self._is_read = is_read
            (transport.resume_reading if is_read else transport.pause_reading)()

    @property
    def holder(self) -> Holder:
        """The memory that this connection uses before it has a session."""
        waiting = self._reader.waiting
        return Holder("a connection over MQTT", waiting, lambda reason: self.abort())

    def abort(self) -> None:
        """End it without waiting for what was written."""
        if self._transport is not None:
            self._transport.abort()

    def _shut(self) -> None:
        self._is_over = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
            self._lingering = self._server.loop.call_later(LINGER_S, self.abort)

    # -- beginning and end -------------------------------------------------------------------------------------

    @property
    def _version(self) -> int:
        return self._reader.version

    def _send(self, packet: Packet) -> None:
        self._out.append(encode(packet, self._version or FIVE))

    def _flush(self) -> None:
        if self._out:
            if self._transport is not None and not self._transport.is_closing():
                self._transport.write(b"".join(self._out))
            self._out.clear()

    def _refuse(self, answer: Answer, reason: str = "", version: int = 0) -> None:
        """Refuse the connection."""
        log.info("a connection over MQTT is refused: %s", reason or answer.name)
        text = (
            reason[:500]
            if reason and self._connect is not None and self._connect.request_problem_info
            else None
        )
        packet = mqtt5.ConnAckPacket(reason_code=answer, reason_str=text)
        self._out.append(encode(packet, version or self._version or FIVE))
        self._flush()
        self._shut()

    def _end(self, why: Why, reason: str = "") -> None:
        """End the connection, and tell a client of version 5 why."""
        if self._is_over:
            return
        if self.session is None:
            if self._connect is None and self._version != FIVE:
                self._shut()  # whoever says something else first is told nothing
            else:
                self._refuse(Answer(int(why)) if int(why) in set(Answer) else Answer.PROTOCOL_ERROR, reason)
            return
        log.info("the connection of %s over MQTT ends: %s", self.session.client, reason or why.name)
        if self._version == FIVE:
            self._send(mqtt5.DisconnectPacket(reason_code=why, reason_str=reason[:500] or None))
        self._flush()
        self._shut()
        self._leave()

    def stop(self) -> None:
        """The broker stops."""
        if self.session is None:
            self.abort()
        else:
            self._end(Why.SERVER_SHUTTING_DOWN)

    def taken_over(self) -> None:
        """Another connection has the session now."""
        self._end(Why.SESSION_TAKEN_OVER)

    def _leave(self) -> None:
        """The client is gone: its session lasts, or ends."""
        session, self.session = self.session, None
        self._is_over = True
        if session is None:
            return
        if self._alive is not None:
            self._alive.cancel()
        if session.connection is self:
            session.connection = None
            session.flow.lost()
        node = self.node_session
        if session.expiry == 0:
            if session.was_durable:
                self._request(lambda number: wire.Unsubscribe(number, "", session.name))
            self._listener.sessions.forget(session.name)
        if self._will_leave:
            self._tell(wire.Bye("the client has left"))
        self._hand_over()
        if node is not None:
            self._node.lost(node)
            self._server.schedule()

    def _take(self, packet: Packet) -> None:
        if isinstance(packet, mqtt5.ConnectPacket):
            if self._connect is not None:
                raise ProtocolError("a connection begins once")
            self._connect = packet
            self._begin(packet)
            return
        if self.session is None:
            return  # it is over
        match packet:
            case mqtt5.PublishPacket():
                self._publish(packet)
            case mqtt5.PubAckPacket():
                self._follow(self.session.flow.acknowledged(packet.packet_id))
            case mqtt5.PubRecPacket():
                self._received(packet)
            case mqtt5.PubCompPacket():
                self._follow(self.session.flow.completed(packet.packet_id))
            case mqtt5.PubRelPacket():
                is_known = self.session.flow.released(packet.packet_id)
                code = (
                    mqtt5.PubCompReasonCode.SUCCESS
                    if is_known
                    else mqtt5.PubCompReasonCode.PACKET_ID_NOT_FOUND
                )
                self._send(mqtt5.PubCompPacket(packet.packet_id, reason_code=code))
            case mqtt5.SubscribePacket():
                self._subscribe(packet)
            case mqtt5.UnsubscribePacket():
                self._unsubscribe(packet)
            case mqtt5.PingReqPacket():
                self._send(mqtt5.PingRespPacket())
            case mqtt5.DisconnectPacket():
                self._disconnect(packet)
            case _:
                raise ProtocolError("no authentication was agreed upon")
        self._flush()

    def _disconnect(self, packet: mqtt5.DisconnectPacket) -> None:
        assert self.session is not None
        if packet.session_expiry_interval is not None:
            if self.session.expiry == 0 and packet.session_expiry_interval:
                raise ProtocolError("a session that was to end does not last")
            self._set_expiry(self.session, packet.session_expiry_interval)
            self._lease(self.session)
        self._will_leave = int(packet.reason_code) != int(Why.DISCONNECT_WITH_WILL_MESSAGE)
        self._shut()
        self._leave()

    # -- CONNECT -----------------------------------------------------------------------------------------------

    def _begin(self, packet: mqtt5.ConnectPacket) -> None:
        """See who it is."""
        if packet.authentication_method is not None:
            self._refuse(Answer.BAD_AUTHENTICATION_METHOD)
            return
        authentication = self._server.authentication
        authorization = _authorization(packet) if self._node.guard.is_on else ""
        certificate = None if self._transport is None else self._transport.get_extra_info("peercert")
        try:
            if not self._node.guard.is_on:
                self._open(NOBODY)
            elif not authentication.is_slow(authorization):
                self._open(authentication.principal(authorization, certificate))
            else:
                self._is_busy = True
                checking = authentication.check_beside(authorization)
                checking.add_done_callback(self._checked)
        except NotAuthenticated as error:
            self._refuse(Answer.BAD_USER_NAME_OR_PASSWORD, str(error))

    def _checked(self, done: asyncio.Future[Principal]) -> None:
        if self._is_over or done.cancelled() or self._transport is None:
            return
        try:
            self._open(done.result())
        except NotAuthenticated as error:
            self._refuse(Answer.BAD_USER_NAME_OR_PASSWORD, str(error))
        self._go_on()

    def _open(self, principal: Principal) -> None:
        """Begin a session for a principal, or continue it."""
        packet = self._connect
        assert packet is not None
        client = packet.client_id
        if not client and self._version != FIVE and not packet.clean_start:
            self._refuse(Answer.CLIENT_ID_NOT_VALID, "a session that lasts needs a client id")
            return
        assigned = "" if client else f"auto-{uuid.uuid4().hex}"
        client = client or assigned
        if not client.isprintable() or len(client.encode()) > CLIENT_MAX:
            reason = f"a client id has up to {CLIENT_MAX} bytes of printable characters"
            self._refuse(Answer.CLIENT_ID_NOT_VALID, reason)
            return
        own = f"{principal.name}{SEPARATOR}" if self._node.guard.is_on else ""
        name = f"{own}mqtt/{client}"
        is_own = not own or client == principal.name or client.startswith(own)
        self._producer = client if is_own else f"{own}{client}"
        try:  # before anything of the session that there may be ends
            self._node.guard.name_for(name, principal, micros(), is_made_up=False)
        except Forbidden as error:
            self._refuse(Answer.NOT_AUTHORIZED, str(error))
            return
        before = self._listener.sessions.get(name)
        if before is not None and before.connection is not None:
            before.connection.taken_over()
        self._is_busy = True
        self._open_when_free(principal, name, client, assigned)

    def _open_when_free(self, principal: Principal, name: str, client: str, assigned: str) -> None:
        """Go on when nothing is left of what the client had before, if that is being removed."""
        if self._is_over or self._transport is None or self._server.is_stopped:
            return
        left, packet = self._node.leaving.left, self._connect
        assert packet is not None
        is_clean = packet.clean_start
        if f"c:{name}" in left or f"d:{name}" in left:
            again = partial(self._open_when_free, principal, name, client, assigned)
            self._server.loop.call_later(RETRY_S, again)
            return
        self._is_busy = False
        if is_clean:
            self._listener.sessions.forget(name)
            self._node.wills.hurry(name, micros())  # with the session that it belongs to
        session, is_present = self._listener.sessions.of(name, client)
        try:
            self.node_session = self._node.greet(self, self._hello(name), micros(), principal)
        except ValueRefused as error:
            self._refuse(Answer.PAYLOAD_FORMAT_INVALID, str(error))
            return
        except FairleadError as error:
            is_forbidden = isinstance(error, Forbidden) or isinstance(error.__context__, Forbidden)
            self._refuse(Answer.NOT_AUTHORIZED if is_forbidden else Answer.SERVER_UNAVAILABLE, str(error))
            return
        if is_clean and is_present:
            # What the log has of it ends before anything else.
            self._request(lambda number: wire.Unsubscribe(number, "", name))
            self._hand_over()
            self._listener.sessions.forget(name)
            session, is_present = self._listener.sessions.of(name, client)
        if self._deadline is not None:
            self._deadline.cancel()
        self.session, session.connection = session, self
        self._welcome(packet, session, is_present=is_present, assigned=assigned)
        self._go_on()

    def _hello(self, name: str) -> wire.Hello:
        """The introduction of the client to the broker, with its will."""
        packet = self._connect
        assert packet is not None
        will, now = packet.will, micros()
        if will is None:
            return wire.Hello(wire.VERSION, "client", name)
        if not is_topic(will.topic):
            raise ProtocolError("the topic of a will has no wildcards")
        id = f"will-{uuid.uuid4().hex}"
        expiry = _expiry_of(packet, self._version)
        delay = min(will.will_delay_interval, will.will_delay_interval if expiry is None else expiry)
        notification = self._listener.mapping.notification(
            will, will.topic, producer=self._producer, id=id, now=now
        )
        return wire.Hello(wire.VERSION, "client", name, will=pack(notification), will_delay=delay * 1_000_000)

    def _go_on(self) -> None:
        """Take what the client has said meanwhile."""
        self._bound_reading()
        try:
            while self._packets and not self._is_busy and not self._is_over:
                self._take(self._packets.popleft())
        except ProtocolError as error:
            self._end(Why.PROTOCOL_ERROR, str(error))
        self._hand_over()

    def _welcome(
        self, packet: mqtt5.ConnectPacket, session: Session, *, is_present: bool, assigned: str
    ) -> None:
        five = self._version == FIVE
        expiry = _expiry_of(packet, self._version)
        asked = NEVER if expiry is None else expiry
        self._set_expiry(session, asked)
        self._packet_max = packet.max_packet_size
        self._keep_s = packet.keep_alive * SILENCES
        self._heard = self._server.loop.time()
        self._look_after()
        granted = NEVER if session.expiry is None else session.expiry
        self._send(
            mqtt5.ConnAckPacket(
                session_present=is_present,
                session_expiry_interval=granted if granted != asked else None,
                assigned_client_id=assigned or None,
                receive_max=RECEIVE_MAX,
                topic_alias_max=ALIASES,
                max_packet_size=self._listener.packet_max,
            )
        )
        log.info("%s is connected over MQTT", session.client)
        self._follow(session.flow.resumed(packet.receive_max if five else 65_535))
        self._flush()
        if session.is_recalled:
            session.is_recalled = False
            for each in session.recall(self._node.durables[session.name].subscriptions):
                session.add(self._at_broker(session, each))
        if session.expiry != 0 and self._node.ledger is not None:
            session.was_durable = True
            self._lease(session)
        for subscription in session:
            self._request(partial(self._subscription, session, subscription))
        self._hand_over()

    def _set_expiry(self, session: Session, asked: int) -> None:
        """Have the session last for so many seconds without a connection, as far as it can."""
        if self._node.ledger is None:
            asked = 0
        most = self._node.limits.lease_max
        if most is not None and asked:
            asked = max(1, min(asked, int(most)))
        session.expiry = None if asked == NEVER else asked

    def _lease(self, session: Session) -> None:
        """Have the broker keep the session for as long as it lasts."""
        if session.was_durable and session.expiry != 0:
            self._request(lambda number: self._subscribing(number, MARKER, "false", session.name))

    def _look_after(self) -> None:
        """End a connection that is silent for too long. One that is not read from cannot be heard."""
        if not self._keep_s or self._is_over:
            return
        loop = self._server.loop
        left = self._heard + self._keep_s - loop.time()
        if left <= 0 and self._is_read:
            self._end(Why.KEEP_ALIVE_TIMEOUT)
            return
        self._alive = loop.call_later(max(left, 0.1), self._look_after)

    # -- publications of the client ----------------------------------------------------------------------------

    def _publish(self, packet: mqtt5.PublishPacket) -> None:
        assert self.session is not None
        topic, flow, qos = self._topic(packet), self.session.flow, int(packet.qos)
        if packet.response_topic is not None and not is_topic(packet.response_topic):
            raise ProtocolError("a response topic has no wildcards")
        number, id = 0, packet.packet_id or 0
        name = self.session.next_id()
        if qos:
            under_way = flow.taken + sum(each.qos == 1 for each in self._publishing)
            if self._version == FIVE and under_way > RECEIVE_MAX:
                self._end(Why.RECEIVE_MAX_EXCEEDED)
                return
            self._numbers += 1
            number = self._numbers
            publishing = _Publishing(number, qos, id)
            if qos == 2:
                taken = flow.take(id, self._name_of(packet, topic, name))
                if taken is None:  # it is safe: the client has not heard of it
                    publishing.reason = 0
                    self._publishing.append(publishing)
                    self._answer()
                    return
                name = taken
            self._publishing.append(publishing)
        try:
            notification = self._listener.mapping.notification(
                packet, topic, producer=self._producer, id=name, now=micros()
            )
            packed = pack(notification)
        except ValueRefused as error:
            self._refused(number, error)
            return
        self._frames_out.append((wire.PUBLISH, wire.publish(number, packed)[HEAD:]))

    def _topic(self, packet: mqtt5.PublishPacket) -> str:
        """The topic of a publication, by its alias where it has one."""
        topic, alias = packet.topic, packet.topic_alias
        if alias is not None:
            if not 0 < alias <= ALIASES:
                self._end(Why.TOPIC_ALIAS_INVALID)
                raise ProtocolError("the topic alias is beyond the maximum")
            if topic:
                self._aliases[alias] = topic
            topic = self._aliases.get(alias, "")
        if not is_topic(topic):
            self._end(Why.TOPIC_NAME_INVALID if topic else Why.PROTOCOL_ERROR)
            raise ProtocolError(f"no topic: {topic!r:.100}")
        return topic

    def _name_of(self, packet: mqtt5.PublishPacket, topic: str, fresh: str) -> str:
        """The id that a publication at QoS 2 has. One that comes again after the broker was killed has the id that
        it had: that of the last publication under its packet id, if that was the same."""
        assert self.session is not None
        digest = blake2b(packet.payload, digest_size=6, key=topic.encode()[:64]).hexdigest()
        prefix = f"2.{packet.packet_id}."
        if packet.duplicate:
            known = self._node.broker.identities.latest_of(self._producer)
            last = next((each for each in known if each.startswith(prefix)), "")
            if last.startswith(f"{prefix}{digest}.") and self.session.run not in last:
                return last
        return f"{prefix}{digest}.{fresh}"

    def _stored(self, number: int) -> None:
        for each in self._publishing:
            if each.number > number:
                break
            if each.reason is None:
                each.reason = 0
        self._answer()

    def _refused(self, number: int, error: FairleadError) -> None:
        """A publication is refused."""
        for each in self._publishing:
            if each.number == number:
                if self._version != FIVE:
                    # 3.1.1 has no word for it, and to acknowledge it would be a lie.
                    self._end(Why.NOT_AUTHORIZED, str(error))
                    return
                forbidden = isinstance(error, Forbidden)
                code = (
                    PubAckReasonCode.NOT_AUTHORIZED
                    if forbidden
                    else PubAckReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
                )
                each.reason, each.text = int(code), str(error)
        self._answer()

    def _answer(self) -> None:
        """Acknowledge publications, in the order in which they came."""
        session = self.session
        while self._publishing and self._publishing[0].reason is not None:
            each = self._publishing.popleft()
            reason, text = each.reason or 0, each.text[:500] or None
            if each.qos == 1:
                code = PubAckReasonCode(reason)
                self._send(mqtt5.PubAckPacket(each.id, reason_code=code, reason_str=text))
                continue
            if session is not None:
                (session.flow.refused if reason else session.flow.made_safe)(each.id)
            self._send(
                mqtt5.PubRecPacket(each.id, reason_code=mqtt5.PubRecReasonCode(reason), reason_str=text)
            )

    # -- deliveries --------------------------------------------------------------------------------------------

    def _deliver(self, ordinal: int, head: list[str], packed: bytes) -> None:
        session = self.session
        if session is None:
            return
        ids, attempt = wire.attempt_in(head)
        ids, (part, parts) = wire.part_in(ids)
        subscriptions = session.of(ids)
        if not subscriptions:
            if ordinal:  # it has been unsubscribed from
                self._tell(wire.Accept(session.name, [ordinal]))
            return
        accepted_as, mapping = subscriptions[0].accepted_as, self._listener.mapping
        key = (accepted_as, ordinal, part, parts)
        message = mapping.message(unpack(packed))
        if message.is_other:  # on a topic of the template, of which the broker's filters know less
            subscriptions = [
                each
                for each in subscriptions
                if not mapping.is_on_template(each.topic_filter) or matches(each.topic_filter, message.topic)
            ]
            if not subscriptions:
                if ordinal and accepted_as:
                    self._accept(key)
                return
        asked = max(each.qos for each in subscriptions)
        qos = min(asked, message.qos) if ordinal and accepted_as else 0
        content = (message, qos, tuple(subscriptions))
        if qos:
            self._follow(session.flow.deliver(key, qos, content, is_again=attempt > 1, size=len(packed)))
            return
        self._put(content)
        if ordinal and accepted_as:
            self._accept(key)

    def _put(self, content: Any, id: int = 0, *, is_again: bool = False) -> bool:
        """Send a message; False: it is too large for the client, or has expired, and is not sent."""
        message, qos, subscriptions = content
        left = message.seconds_left(micros())
        if left == 0:
            return False
        try:
            packet = mqtt5.PublishPacket(
                message.topic,
                message.payload,
                qos=mqtt5.QoS(qos),
                packet_id=id or None,
                duplicate=is_again and bool(qos),
                retain=message.retain and any(each.as_published for each in subscriptions),
                payload_format_indicator=message.payload_format,
                message_expiry_interval=left,
                content_type=message.content_type,
                response_topic=message.response_topic,
                correlation_data=message.correlation_data,
                user_properties=[*message.user_properties],
                subscription_ids=[*dict.fromkeys(each.number for each in subscriptions if each.number)],
            )
            encoded = encode(packet, self._version)
        except ValueError:  # a text that is longer than the protocol has it
            return False
        if self._packet_max is not None and len(encoded) > self._packet_max:
            return False
        self._out.append(encoded)
        return True

    def _follow(self, effects: Sequence[Effect]) -> None:
        """Carry out what follows."""
        todo = deque(effects)
        while todo:
            effect = todo.popleft()
            if isinstance(effect, Publish):
                if not self._put(effect.content, effect.id, is_again=effect.is_again):
                    assert self.session is not None
                    todo.extend(self.session.flow.dropped(effect.id))
            elif isinstance(effect, Accept):
                self._accept(cast(tuple[str, int, int, int], effect.key))
            else:
                self._send(mqtt5.PubRelPacket(effect.id))

    def _accept(self, key: tuple[str, int, int, int]) -> None:
        name, ordinal, _, parts = key
        if parts > 1:
            count = self._parts.get((name, ordinal), 0) + 1
            if count < parts:
                self._parts[name, ordinal] = count
                return
            self._parts.pop((name, ordinal), None)
        self._tell(wire.Accept(name, [ordinal]))

    def _received(self, packet: mqtt5.PubRecPacket) -> None:
        assert self.session is not None
        effects = self.session.flow.received(packet.packet_id, is_refused=int(packet.reason_code) >= 0x80)
        if effects is None:
            code = mqtt5.PubRelReasonCode.PACKET_ID_NOT_FOUND
            self._send(mqtt5.PubRelPacket(packet.packet_id, reason_code=code))
        else:
            self._follow(effects)

    # -- subscriptions -----------------------------------------------------------------------------------------

    def _subscribe(self, packet: mqtt5.SubscribePacket) -> None:
        session = self.session
        assert session is not None
        content = next((value for name, value in packet.user_properties if name == "filter"), "")
        codes: list[int | None] = [None] * len(packet.topic_filters)
        answered = _Gathering(codes, lambda: self._send_suback(packet.packet_id, codes))
        for index, each in enumerate(packet.topic_filters):
            given = Subscription(
                each.pattern,
                int(each.max_qos),
                each.no_local,
                each.retain_as_published and self._version == FIVE,
                packet.subscription_id or 0,
                content,
            )
            if given.is_shared and given.no_local:
                raise ProtocolError("a shared subscription has what its own client publishes, too")
            try:
                placed = self._at_broker(session, replace(given, id=given.text))
            except FairleadError as error:
                log.info("%s: no topic filter: %s", session.client, error)
                answered(index, int(SubAckReasonCode.TOPIC_FILTER_INVALID))
                continue
            before = session.to(placed.topic_filter)
            session.add(placed)
            subscribed = partial(self._subscribed, session, placed, before, partial(answered, index))
            self._request(partial(self._subscription, session, placed), subscribed)
        if not answered.is_complete:
            self._server.loop.call_later(INSTALL_S, answered.enough)

    def _at_broker(self, session: Session, given: Subscription) -> Subscription:
        """A subscription as it is at the broker. FairleadError where its filters are none."""
        if self._node.ledger is None:
            self._listener.mapping.wanted(given.topic_filter, given.content)
            return replace(given, qos=0)
        wanted = self._listener.mapping.wanted(given.topic_filter, given.content)
        if wanted.group:
            durable = f"mqtt/$share/{wanted.group}"
            return replace(given, id=f"$share/{wanted.group}", durable=durable, accepted_as=durable)
        if session.was_durable:
            return replace(given, durable=session.name, accepted_as=session.name)
        if given.qos:
            return replace(given, accepted_as=f"c:{session.name}#{given.id}")
        return given

    def _subscription(self, session: Session, placed: Subscription, number: int) -> wire.Subscribe:
        but = self._producer if placed.no_local else ""
        wanted = self._listener.mapping.wanted(placed.topic_filter, placed.content, but)
        return self._subscribing(
            number,
            placed.id,
            render(wanted.filter),
            placed.durable,
            is_shared=bool(wanted.group) and bool(placed.durable),
            since=0 if placed.accepted_as and not placed.durable else None,
        )

    def _subscribing(
        self,
        number: int,
        id: str,
        text: str,
        durable: str,
        *,
        is_shared: bool = False,
        since: int | None = None,
    ) -> wire.Subscribe:
        after = 1 << 62 if since is not None else 0  # at the end: what comes from now on
        expiry = 0 if self.session is None else self.session.expiry
        lease = 0 if expiry is None or not durable else max(1, expiry * 1_000_000)
        return wire.Subscribe(number, id, text, durable, since, is_shared, after=after, lease=lease)

    def _subscribed(
        self,
        session: Session,
        placed: Subscription,
        before: Subscription | None,
        answered: Callable[[int], None],
        error: FairleadError | None,
    ) -> None:
        if error is None:
            if before is not None and before.id != placed.id:
                self._request(lambda number: wire.Unsubscribe(number, before.id, before.durable))
            answered(placed.qos)
            return
        log.info("a subscription of %s over MQTT is refused: %s", session.client, error)
        session.remove(placed)
        if before is not None:
            session.add(before)
        is_forbidden = isinstance(error, Forbidden)
        code = (
            SubAckReasonCode.NOT_AUTHORIZED
            if is_forbidden
            else SubAckReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
        )
        answered(int(code))

    def _send_suback(self, id: int, codes: list[int | None]) -> None:
        if self.session is not None:
            self._send(mqtt5.SubAckPacket(id, [SubAckReasonCode(code or 0) for code in codes]))
            self._flush()

    def _unsubscribe(self, packet: mqtt5.UnsubscribePacket) -> None:
        session = self.session
        assert session is not None
        codes: list[int | None] = [None] * len(packet.patterns)

        def send() -> None:
            if self.session is not None:
                made = [UnsubAckReasonCode(code or 0) for code in codes]
                self._send(mqtt5.UnsubAckPacket(packet.packet_id, made))
                self._flush()

        answered = _Gathering(codes, send)
        for index, text in enumerate(packet.patterns):
            found = session.to(text)
            if found is None:
                answered(index, int(UnsubAckReasonCode.NO_SUBSCRIPTION_EXISTED))
                continue
            session.remove(found)

            def done(error: FairleadError | None, index: int = index) -> None:
                answered(index, int(UnsubAckReasonCode.SUCCESS))

            self._request(partial(self._unsubscribing, found), done)

    def _unsubscribing(self, found: Subscription, number: int) -> wire.Control:
        if found.is_shared and found.durable:
            members = self._node.durables.get(found.durable)
            if members is not None and [*members.members] != [self.node_session]:
                return wire.Release(number, found.durable)
            return wire.Unsubscribe(number, "", found.durable)
        return wire.Unsubscribe(number, found.id, found.durable)

    # -- the node ----------------------------------------------------------------------------------------------

    def _request(
        self,
        make: Callable[[int], wire.Control],
        then: Callable[[FairleadError | None], None] = lambda error: None,
    ) -> None:
        self._numbers += 1
        self._requests[self._numbers] = then
        self._tell(make(self._numbers))

    def _tell(self, message: wire.Control) -> None:
        self._frames_out.append((wire.CONTROL, wire.control(message)[HEAD:]))

    def _hand_over(self) -> None:
        """Hand the node what the client has said."""
        if self._frames_out and self.node_session is not None:
            frames, self._frames_out = self._frames_out, []
            self._node.receive(self.node_session, frames, micros())
            self._server.schedule()

    def _hand_over_later(self) -> None:
        """The same, behind what the node does now."""
        if self._frames_out:
            self._server.loop.call_soon(self._hand_over)

    def _hear_node(self, message: wire.Control) -> None:
        match message:
            case wire.Done(number) | wire.Response(number):
                self._answered(number, None)
            case wire.Repeated(number):
                self._stored_one(number)
            case wire.Refused(0, reason, durable):
                self._lost_durable(durable, reason)
            case wire.Refused(number, reason, _, _, is_forbidden):
                error = (Forbidden if is_forbidden else ValueRefused)(reason)
                if number in self._requests:
                    self._answered(number, error)
                else:
                    self._refused(number, error)
            case wire.Bye(reason):
                stops = self._server.is_stopped
                self._end(Why.SERVER_SHUTTING_DOWN if stops else Why.ADMINISTRATIVE_ACTION, reason)
            case _:
                pass

    def _answered(self, number: int, error: FairleadError | None) -> None:
        then = self._requests.pop(number, None)
        if then is not None:
            then(error)

    def _stored_one(self, number: int) -> None:
        for each in self._publishing:
            if each.number == number and each.reason is None:
                each.reason = 0
        self._answer()

    def _lost_durable(self, durable: str, reason: str) -> None:
        """Somebody else has the durable subscriber of this session, or has ended it."""
        if self.session is not None and durable == self.session.name:
            self._end(Why.ADMINISTRATIVE_ACTION, reason)


class _Gathering:
    """Answers to the parts of one packet; when all have come, or enough time is over, the packet is answered."""

    def __init__(self, codes: list[int | None], complete: Callable[[], None]) -> None:
        self._codes, self._complete = codes, complete
        self.is_complete = False

    def __call__(self, index: int, code: int) -> None:
        self._codes[index] = code
        if None not in self._codes:
            self.enough()

    def enough(self) -> None:
        """Answer now, if that has not been done."""
        if not self.is_complete:
            self.is_complete = True
            self._complete()


def _expiry_of(packet: mqtt5.ConnectPacket, version: int) -> int | None:
    """For how many seconds a client wants its session to last without it; None: for ever."""
    if version != FIVE:
        return 0 if packet.clean_start else None
    return None if packet.session_expiry_interval == NEVER else packet.session_expiry_interval


def _authorization(packet: mqtt5.ConnectPacket) -> str:
    """User name and password as the header of HTTP has them; a password without a user name is a token."""
    password = (packet.password or b"").decode(errors="replace")
    if not packet.username:
        return f"Bearer {password}" if password else ""
    pair = base64.b64encode(f"{packet.username}:{password}".encode()).decode("ascii")
    return f"Basic {pair}"
