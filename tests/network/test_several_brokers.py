"""A client with the addresses of several brokers connects to one that it can reach, and goes on at another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead import connect, sync
from fairlead.cli import main
from fairlead.errors import ConnectionEnded, NetworkError, ValueRefused
from fairlead.network import Tls
from fairlead.network.survey import survey
from fairlead_lab.testing.brokers import Brokers

NOBODY = "fairlead://127.0.0.1:1"


def test_the_first_broker_that_can_be_reached_is_taken(brokers: Brokers) -> None:
    server = brokers.start("east")
    with sync.connect([NOBODY, server.url]) as client:
        assert client.broker == "east"
        client.publish({"x": 1})
    assert survey([NOBODY, server.url]).first == "east"


def test_a_subscription_goes_on_at_another_broker_and_so_do_publications(
    brokers: Brokers, tmp_path: Path
) -> None:
    hub = brokers.start("hub", tmp_path)
    east = brokers.start("east", tmp_path, links=(hub.url,))
    with (
        sync.connect([east.url, hub.url], name="consumer") as consumer,
        sync.connect([east.url, hub.url], name="producer") as producer,
        consumer.subscribe("exists x") as subscription,
    ):
        producer.publish({"x": 1})
        assert subscription.get().get("x") == 1
        assert (consumer.broker, producer.broker) == ("east", "east")
        brokers.stop(east)
        consumer.status()  # answered by the other broker, after the subscription was said there
        assert consumer.broker == "hub"
        producer.publish({"x": 2})
        assert producer.broker == "hub"
        assert subscription.get().get("x") == 2


@pytest.mark.parametrize("position", [{"durable": "d"}, {"since": 0}], ids=["durable", "since"])
def test_a_client_with_a_position_in_a_log_stays_with_its_broker(
    brokers: Brokers, tmp_path: Path, position: dict[str, Any]
) -> None:
    hub, east = brokers.start("hub", tmp_path), brokers.start("east", tmp_path)
    with (
        sync.connect([east.url, hub.url]) as client,
        client.subscribe("exists x", **position) as subscription,
    ):
        port = east.port
        brokers.stop(east)
        brokers.start("east", tmp_path, port)
        client.publish({"x": 1})
        assert client.broker == "east"
        assert subscription.get().get("x") == 1


def test_a_broker_that_a_client_cannot_leave_is_the_one_that_is_named(
    brokers: Brokers, tmp_path: Path
) -> None:
    hub, east = brokers.start("hub", tmp_path), brokers.start("east", tmp_path)
    url = east.url
    client = sync.connect([url, hub.url], patience=0.2)
    client.open()
    client.subscribe("exists x", durable="d")
    brokers.stop(east)
    with pytest.raises(ConnectionEnded, match=f"^{url} cannot be reached"):
        client.publish({"x": 1})
    client.close()


def test_a_broker_that_is_not_to_be_spoken_to_is_passed_over(brokers: Brokers) -> None:
    server = brokers.start("east")
    secure = server.url.replace("fairlead://", "fairleads://")
    with sync.connect([secure, server.url]) as client:
        assert client.broker == "east"
    with pytest.raises(ConnectionEnded, match="does not speak TLS"):
        sync.connect([secure, secure.replace("127.0.0.1", "localhost")]).open()


def test_all_addresses_that_cannot_be_reached_are_named() -> None:
    with pytest.raises(ConnectionEnded, match=f"{NOBODY} and fairlead://127.0.0.1:2 cannot be reached"):
        sync.connect([NOBODY, "127.0.0.1:2"], patience=0).open()


def test_there_is_an_address_and_certificates_are_for_all_of_them() -> None:
    with pytest.raises(ValueRefused, match="no broker to connect to"):
        connect([])
    with pytest.raises(NetworkError, match=f"certificates for {NOBODY}"):
        connect(["fairleads://127.0.0.1:2", NOBODY], tls=Tls(authority="x"))


def test_commands_take_several_addresses(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = brokers.start("east")
    assert main(["pub", "-b", NOBODY, "-b", server.url, "x=1"]) == 0
    monkeypatch.setenv("FAIRLEAD_BROKER", f"{NOBODY}, {server.url}")
    assert main(["pub", "x=2"]) == 0
    assert main(["topology"]) == 0
    assert "east" in capsys.readouterr().out
