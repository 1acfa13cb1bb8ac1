"""Nobody becomes a neighbour, and no address is called, unless that was meant; the dead block nothing."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fairlead.errors import AccessRefused, BrokerRefused
from fairlead.network import sync, wire
from fairlead.network.addresses import Address, Tls
from fairlead.network.overlay import read_overlay
from fairlead.network.settings import Limits
from fairlead.security.settings import Security
from fairlead_lab.testing.brokers import PATIENCE_S, Brokers
from fairlead_lab.testing.guarded import Guarded

Until = Callable[[Callable[[], object]], None]
ONLY_EAST = Security(brokers=("east", "west-*"))


def connect(url: str) -> sync.Client:
    return sync.connect(url, patience=PATIENCE_S)


@pytest.mark.parametrize(
    ("name", "is_taken"), [("east", True), ("west-2", True), ("west", False), ("eve", False)]
)
def test_only_listed_brokers_become_neighbours(
    brokers: Brokers, name: str, is_taken: bool, until: Until
) -> None:
    hub = brokers.start("hub", security=ONLY_EAST)
    other = brokers.start(name)
    with connect(other.url) as client:
        if is_taken:
            client.link(hub.url)
            until(lambda: name in hub.node.links)
        else:
            with pytest.raises(BrokerRefused, match="does not list it"):
                client.link(hub.url)
    with connect(hub.url) as client:
        if not is_taken:
            with pytest.raises(BrokerRefused, match="does not list it"):
                client.link(other.url)
            assert not hub.node.links


def test_the_file_of_a_network_lists_who_may_join(tmp_path: Path) -> None:
    path = tmp_path / "topology.toml"
    path.write_text('links = [["a", "b"], ["b", "c"]]\n[brokers.a]\n[brokers.b]\n[brokers.c]\n')
    overlay = read_overlay(path)
    assert overlay.broker("a", {"b": 1}).security.brokers == ("a", "b", "c")
    path.write_text(path.read_text() + "[security]\nbrokers = ['*']\n")
    assert read_overlay(path).broker("a", {"b": 1}).security.brokers == ("*",)


def test_a_broker_calls_only_listed_addresses_for_its_clients(brokers: Brokers) -> None:
    hub = brokers.start("hub", security=Security(links=("fairlead://10.0.7.*:7400",)))
    with connect(hub.url) as client:
        for url in (
            "fairlead://169.254.169.254:80",
            "127.0.0.1:22",
            "fairleads://10.0.7.1:7400",
            "10.0.7.1:22",
        ):
            with pytest.raises(BrokerRefused, match="is not called from here"):
                client.link(url)
        assert not hub.node.calling.calls
    hub.node.guard.check_address("10.0.7.9")


def test_to_link_takes_a_right_whatever_the_address(guarded: Guarded) -> None:
    hub = guarded.start()
    with guarded.client(hub, "ada") as ada, pytest.raises(AccessRefused, match="you may not manage"):
        ada.link("127.0.0.1:1")


def test_a_client_learns_nothing_with_which_it_could_pose_as_its_broker(
    brokers: Brokers, tmp_path: Path
) -> None:
    """What a client is told of a log is not what a neighbour shows."""
    hub = brokers.start("hub", tmp_path)
    handshakes = hub.node.handshakes
    hello = wire.Hello(wire.VERSION, "client", "eve")
    told, shown = handshakes.welcome_client("eve", hello), handshakes.hello("")
    assert told.log
    assert shown.log
    known = {shown.log, *(id for id, _ in shown.lineage)}
    assert not known & {told.log, *(id for id, _ in told.lineage)}
    assert [first for _, first in told.lineage] == [first for _, first in shown.lineage]


def greet(url: str, hello: wire.Hello) -> wire.Control:
    """What a broker answers, when a connection begins so."""
    address, frames = Address.parse(url), wire.Frames()
    with socket.create_connection(address[:2], PATIENCE_S) as connection:
        connection.sendall(wire.control(hello))
        while data := connection.recv(1 << 16):
            for kind, payload in frames.feed(data):
                assert kind == wire.CONTROL
                return wire.parse_control(payload)
    raise AssertionError("no answer")


def test_a_client_cannot_pose_as_a_neighbour_that_is_restarting(
    brokers: Brokers, tmp_path: Path, until: Until
) -> None:
    hub, east = brokers.start("hub", tmp_path), brokers.start("east", tmp_path)
    with connect(hub.url) as client:
        client.link(east.url)
        told = greet(east.url, wire.Hello(wire.VERSION, "client", "eve"))
        assert isinstance(told, wire.Welcome)
        brokers.stop(east)
        until(lambda: hub.node.links["east"].session is None)
        as_east = wire.Hello(
            wire.VERSION,
            "broker",
            "east",
            life="x",
            log=told.log,
            lineage=told.lineage,
            knows=True,
            routing="filters",
            end=told.end,
        )
        answer = greet(hub.url, as_east)
        assert isinstance(answer, wire.Bye)
        assert "it has another log" in answer.reason


def test_a_neighbour_that_is_gone_for_good_blocks_durable_subscriptions_until_it_is_declared_dead(
    brokers: Brokers, tmp_path: Path, until: Until
) -> None:
    hub, east = brokers.start("hub", tmp_path), brokers.start("east", tmp_path)
    with connect(hub.url) as client, connect(hub.url) as operator:
        client.link(east.url)
        brokers.stop(east)
        until(lambda: hub.node.links["east"].session is None)
        with ThreadPoolExecutor(1) as beside:
            waiting = beside.submit(client.subscribe, "true", durable="inbox")
            until(lambda: "inbox" in hub.node.durables)
            assert not waiting.done()
            operator.unlink("east")
            waiting.result(PATIENCE_S).close()


def test_a_tls_handshake_that_hangs_is_ended(brokers: Brokers, certificate: Tls) -> None:
    hub = brokers.start("hub", tls=certificate, limits=Limits(handshake_seconds=1))
    with socket.create_connection(("127.0.0.1", hub.port), PATIENCE_S) as silent:
        silent.sendall(b"\x16\x03\x01")  # the beginning of a greeting, and no more
        assert silent.recv(1) == b""
