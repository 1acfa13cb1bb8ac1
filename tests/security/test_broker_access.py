"""A broker with a policy: who connects is known, and gets and does what the policy says, also while it changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead.cli import main
from fairlead.errors import (
    AccessRefused,
    BrokerRefused,
    ConnectionEnded,
    Forbidden,
    NetworkError,
    SubscriptionEnded,
)
from fairlead.network import sync
from fairlead.network.addresses import Tls
from fairlead.network.client import connect
from fairlead.network.server import Server
from fairlead.rules.access import Access, nobody
from fairlead.security import AccessPolicy, Principal
from fairlead.security.credentials import basic, bearer
from fairlead.security.passwords import write_entry
from fairlead_lab.testing.brokers import on_a_loop
from fairlead_lab.testing.guarded import POLICY, Guarded, token

OTHER = b"another key of 32 bytes and more"
TWO = {"roles": {name: {"members": [name], "subscribe": ["true"]} for name in ("ada", "bob")}}
IBM, SAP, SUN = ({"symbol": each, "price": 120} for each in ("IBM", "SAP", "SUN"))


# -- who ---------------------------------------------------------------------------------------------------------


def refusal(client: sync.Client) -> str:
    with pytest.raises((BrokerRefused, ConnectionEnded)) as error, client:
        pass
    return str(error.value)


@pytest.mark.parametrize(
    "given",
    [
        lambda: token("ada", key=OTHER),
        lambda: token("ada", lasts_s=-1),
        lambda: token("ada", aud="another"),
        lambda: token("ada", nbf=4e9),
        lambda: token("anonymous"),
        lambda: token(""),
        lambda: token("ada").rpartition(".")[0] + ".",
        lambda: "eyJhbGciOiJub25lIiwia2lkIjoib25lIn0." + token("ada").split(".")[1] + ".",
        lambda: "no token",
    ],
)
def test_a_token_that_is_not_valid_is_refused_without_details(
    guarded: Guarded, given: Callable[[], str]
) -> None:
    server = guarded.start(logged=False)
    client = sync.connect(server.url, credentials=bearer(given()), patience=1)
    assert refusal(client) == "the credentials are not accepted"


def test_without_credentials_nobody_connects_whom_no_role_names(guarded: Guarded) -> None:
    server = guarded.start(logged=False)
    assert refusal(guarded.client(server, None)).startswith("you may not connect without credentials")
    assert refusal(guarded.client(server, "eve")) == "you may not connect"


def test_a_password_is_checked_beside_the_loop(guarded: Guarded, tmp_path: Path) -> None:
    write_entry(tmp_path / "passwords", "ada", "correct horse")
    server = guarded.start(logged=False, keys={"passwords": str(tmp_path / "passwords")})
    for _ in range(2):
        with sync.connect(server.url, credentials=basic("ada", "correct horse")) as client:
            assert client.name.startswith("ada~client-")
    for name, password in (("ada", "wrong"), ("eve", "correct horse")):
        assert refusal(sync.connect(server.url, credentials=basic(name, password), patience=1)) == (
            "the credentials are not accepted"
        )


@on_a_loop
async def test_a_certificate_is_a_principal_and_a_token_goes_before_it(
    guarded: Guarded, certificate: Tls
) -> None:
    server = guarded.start(logged=False, tls=certificate)
    url = server.url.replace("127.0.0.1", "localhost").replace("fairlead:", "fairleads:")
    async with connect(url, tls=certificate) as root:
        assert root.name.startswith("root~")
        assert (await root.status())["clients"] == 1
    async with connect(url, tls=certificate, credentials=bearer(token("ada"))) as ada:
        assert ada.name.startswith("ada~")
    with pytest.raises(BrokerRefused, match="you may not connect"):
        async with connect(url, tls=Tls(authority=certificate.authority), patience=1):
            pass


def test_credentials_are_not_sent_where_others_can_read_them() -> None:
    with pytest.raises(NetworkError, match="everybody on the path can read them"):
        sync.connect("fairlead://broker.example.org", credentials=bearer("x"))


def test_the_network_is_surveyed_with_credentials(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = guarded.start(logged=False)
    monkeypatch.setenv("FAIRLEAD_TOKEN", token("root"))
    for command in ("topology", "top"):
        assert main([command, "-b", server.url, "--json"]) == 0
        assert list(json.loads(capsys.readouterr().out)["brokers"]) == [server.settings.name]
    monkeypatch.delenv("FAIRLEAD_TOKEN")
    assert main(["topology", "-b", server.url]) == 2
    assert "you may not connect" in capsys.readouterr().err


def test_a_name_belongs_to_its_principal(guarded: Guarded) -> None:
    server = guarded.start(logged=False)
    with guarded.client(server, "ada", "ada~screen") as client:
        assert client.name == "ada~screen"
        assert refusal(guarded.client(server, "bob", "ada~screen")) == "the name 'ada~screen' is not yours"
        assert refusal(guarded.client(server, "bob", "nobody")) == "the name 'nobody' is not yours"
        assert server.node.clients.keys() == {"ada~screen"}


def test_a_client_whose_library_made_its_name_up_is_named_after_its_principal(guarded: Guarded) -> None:
    server = guarded.start(logged=False)
    with guarded.client(server, "nyse") as client:
        assert client.name.startswith("nyse~client-")
        assert client.publish(IBM).producer == client.name


# -- what --------------------------------------------------------------------------------------------------------


def test_a_subscription_is_narrowed_and_the_client_is_sent_the_filter(guarded: Guarded) -> None:
    server = guarded.start()
    with guarded.client(server, "ada") as ada, guarded.client(server, "nyse") as nyse:
        for options in ({}, {"durable": "desk-1"}, {"since": 0}):
            with ada.subscribe("price > 100", **options) as quotes:  # type: ignore[arg-type]
                assert (str(quotes.granted), quotes.narrowed) == ('price > 100 and symbol = "IBM"', True)
                nyse.publish(SAP)
                nyse.publish({**IBM, "n": str(options)})
                got = quotes.get(10)
                while got.get("n") != str(options):
                    got = quotes.get(10)
                    assert got.get("symbol") == "IBM"
        with ada.subscribe('symbol = "IBM"') as exactly:
            assert not exactly.narrowed


def test_a_subscription_of_which_nothing_can_match_is_refused(guarded: Guarded) -> None:
    server = guarded.start()
    with guarded.client(server, "ada") as ada:
        for options in ({}, {"durable": "desk-1"}):
            with pytest.raises(AccessRefused, match="ada may not subscribe to that as trader"):
                ada.subscribe('symbol = "SAP"', **options).installed()
        assert server.node.durables == {}


@pytest.mark.parametrize("way", ["publish", "send"])
def test_publications_outside_of_the_limits_have_no_effect(
    guarded: Guarded, way: str, until: Callable[[Callable[[], object]], None]
) -> None:
    guarded.write(POLICY + "[roles.all]\nmembers = ['root']\nsubscribe = ['true']\n")
    server = guarded.start()
    with (
        guarded.client(server, "root") as root,
        guarded.client(server, "nyse", "nyse") as nyse,
        root.subscribe("true") as everything,
    ):
        forged = [
            {**SUN, "id": "1"},
            {**IBM, "id": "2", "producer": "xetra"},
            {**IBM, "id": "3", "producer": "scopes"},
            {**IBM, "id": "4", "producer": "c:ada"},
            {"symbol": {"nested": "IBM"}, "id": "5"},
        ]
        for each in forged:
            if way == "publish":
                with pytest.raises(AccessRefused):
                    nyse.publish(each)
            else:
                nyse.send(each)
        last = [nyse.publish({**IBM, "id": "2"}), nyse.publish({**IBM, "producer": "nyse-2"})]
        got = [everything.get(10), everything.get(10)]
        assert [(each.producer, each.id) for each in got] == [(each.producer, each.id) for each in last]
        until(lambda: server.node.counters.refused == len(forged))


@pytest.mark.parametrize("plain", [True, False])
def test_an_id_of_another_producer_cannot_be_guessed(guarded: Guarded, plain: bool) -> None:
    server = guarded.start()
    event = IBM if plain else {**IBM, "nested": {"deep": 1}}
    with guarded.client(server, "nyse") as nyse, guarded.client(server, "ada") as ada:
        nyse.publish({**event, "id": "7", "producer": "nyse"})
        reasons = []
        for id in ("7", "8"):
            with pytest.raises(AccessRefused) as refused:
                ada.publish({**event, "id": id, "producer": "nyse"})
            reasons.append(str(refused.value))
        assert reasons == ["the producer 'nyse' is not yours"] * 2
        # A publisher that asks again, because it missed the answer, learns that it was published: without limits.
        nyse.publish({**event, "symbol": "SUN", "id": "7", "producer": "nyse"})
        assert server.node.counters.duplicates == 1


def test_a_durable_name_is_taken_over_by_nobody_else_in_the_same_words_as_one_that_is_free(
    guarded: Guarded,
) -> None:
    server = guarded.start()
    with (
        guarded.client(server, "ada") as ada,
        guarded.client(server, "nyse") as nyse,
        ada.subscribe('symbol = "IBM"', durable="desk-1"),
    ):
        for name in ("desk-1", "free"):
            for attempt in (
                lambda name=name: nyse.subscribe("true", durable=name).installed(),
                lambda name=name: nyse.forget(name),
            ):
                with pytest.raises(AccessRefused, match=f"the durable name '{name}' is not yours"):
                    attempt()
        assert server.node.durables["desk-1"].session is not None


def test_to_inspect_and_to_manage_are_rights(guarded: Guarded) -> None:
    server = guarded.start()
    with guarded.client(server, "ada") as ada, guarded.client(server, "root", "operator") as root:
        for attempt in (
            ada.status,
            ada.durables,
            lambda: ada.link("fairlead://127.0.0.1:1"),
            lambda: ada.unlink("x"),
            lambda: ada.end_client("operator"),
            ada.drain,
            ada.reload,
        ):
            with pytest.raises(AccessRefused, match="you may not"):
                attempt()
        assert root.status()["security"]["policy"] == server.node.guard.policy.fingerprint  # type: ignore[union-attr]
        root.reload()


def test_who_subscribes_is_told_only_to_those_who_may_publish_that(guarded: Guarded) -> None:
    server = guarded.start(logged=False)
    told: list[bool] = []
    with (
        guarded.client(server, "ada") as ada,
        guarded.client(server, "nyse") as nyse,
        ada.subscribe('symbol = "IBM"'),
    ):
        with pytest.raises(AccessRefused, match="ada may not publish that as trader"):
            ada.listening("true", told.append)
        nyse.listening("true", told.append)
        assert told == [True]


# -- changes -----------------------------------------------------------------------------------------------------


def test_a_revoked_principal_is_disconnected_at_once(guarded: Guarded) -> None:
    server = guarded.start(logged=False)
    with (
        guarded.client(server, "ada") as ada,
        guarded.client(server, "nyse") as nyse,
        ada.subscribe("true") as quotes,
    ):
        guarded.reload(server, 'revoked = ["ada"]\n' + POLICY)
        nyse.publish(IBM)
        with pytest.raises((SubscriptionEnded, BrokerRefused), match="your rights have ended"):
            quotes.get(10)
    assert refusal(guarded.client(server, "ada")) == "you may not connect"


def test_rights_that_change_narrow_and_widen_the_subscriptions_that_there_are(guarded: Guarded) -> None:
    server = guarded.start()
    with (
        guarded.client(server, "ada") as ada,
        guarded.client(server, "nyse") as nyse,
        ada.subscribe("price > 0") as quotes,
    ):
        guarded.reload(server, POLICY.replace('symbol = "IBM"', 'symbol = "SAP"'))
        nyse.publish(IBM)
        nyse.publish(SAP)
        assert quotes.get(10).get("symbol") == "SAP"
        assert str(quotes.granted) == 'price > 0 and symbol = "SAP"'
        guarded.reload(server, POLICY.replace('symbol = "IBM"', "true"))
        nyse.publish(IBM)
        assert quotes.get(10).get("symbol") == "IBM"
        assert not quotes.narrowed


def test_what_waits_in_the_log_is_delivered_by_the_rights_at_delivery(guarded: Guarded) -> None:
    server = guarded.start()
    with guarded.client(server, "ada") as ada, ada.subscribe('symbol = "IBM"', durable="desk-1"):
        pass
    with guarded.client(server, "nyse") as nyse:
        for number in range(100):
            nyse.publish({**IBM, "n": number})
        guarded.reload(
            server,
            POLICY.replace("subscribe = ['symbol = \"IBM\"']", "subscribe = ['symbol = \"IBM\" and n > 97']"),
        )
        nyse.publish({**IBM, "n": 100})
    with guarded.client(server, "bob") as bob, bob.subscribe('symbol = "IBM"', durable="desk-1") as quotes:
        assert [quotes.get(10).get("n") for _ in range(3)] == [98, 99, 100]


def test_a_file_that_is_wrong_changes_nothing(guarded: Guarded) -> None:
    server = guarded.start(logged=False)
    guarded.write("[roles.trader]\nmembers = 7\n")
    with guarded.client(server, "root", "operator") as root:
        with pytest.raises(BrokerRefused, match="members: a list of strings was expected"):
            root.reload()
        with guarded.client(server, "ada") as ada, ada.subscribe("true") as quotes:
            assert quotes.narrowed


def test_a_changed_file_is_read_by_itself(
    guarded: Guarded, until: Callable[[Callable[[], object]], None]
) -> None:
    server = guarded.start(logged=False)
    with guarded.client(server, "ada"):
        guarded.write('revoked = ["ada"]\n' + POLICY)
        until(lambda: not server.node.clients)


def test_a_token_that_expires_ends_the_connection_unless_it_is_renewed(
    guarded: Guarded, until: Callable[[Callable[[], object]], None]
) -> None:
    server = guarded.start(logged=False)
    with guarded.client(server, "bob", lasts_s=1.5) as bob:
        bob.authenticate(bearer(token("bob")))
        with pytest.raises(AccessRefused, match="another principal's"):
            bob.authenticate(bearer(token("ada")))
        with pytest.raises(BrokerRefused, match="the credentials are not accepted"):
            bob.authenticate(bearer("x"))
        with guarded.client(server, "ada", lasts_s=1.0) as ada, ada.subscribe("true") as quotes:
            until(lambda: len(server.node.clients) == 1)
            with pytest.raises((SubscriptionEnded, BrokerRefused), match="your rights have ended"):
                quotes.get(10)
        with bob.subscribe("true") as quotes:
            assert quotes.narrowed


def test_a_durable_subscriber_keeps_its_rights_and_no_more_over_a_restart(guarded: Guarded) -> None:
    server = guarded.start()
    with guarded.client(server, "ada") as ada, ada.subscribe("true", durable="desk-1") as quotes:
        assert quotes.narrowed
    guarded.brokers.stop(server)
    server = guarded.start()
    with guarded.client(server, "nyse") as nyse:
        nyse.publish(SAP)
        nyse.publish(IBM)
    with guarded.client(server, "ada") as ada, ada.subscribe("true", durable="desk-1") as quotes:
        assert quotes.get(10).get("symbol") == "IBM"
        assert str(quotes.granted) == 'symbol = "IBM"'


def test_a_durable_subscriber_from_before_there_was_a_policy_has_no_rights_until_it_is_claimed(
    guarded: Guarded,
) -> None:
    server = guarded.brokers.start("b", guarded.path)
    with sync.connect(server.url) as client, client.subscribe("true", durable="desk-1"):
        pass
    guarded.brokers.stop(server)
    server = guarded.start()
    with guarded.client(server, "nyse") as nyse:
        nyse.publish(SAP)
        with guarded.client(server, "ada") as ada, ada.subscribe("true", durable="desk-1") as quotes:
            nyse.publish(SAP)
            nyse.publish(IBM)
            assert quotes.get(10).get("symbol") == "IBM"


# -- limits ------------------------------------------------------------------------------------------------------


def limited(guarded: Guarded, limits: str) -> Server:
    guarded.write(POLICY.replace('members = ["nyse"]', f'members = ["nyse"]\n{limits}') + FREE)
    return guarded.start(logged=False)


FREE = "[roles.free]\nmembers = ['xetra']\npublish = ['true']\nsubscribe = ['true']\n"


def test_a_principal_has_so_many_connections_and_others_are_unharmed(guarded: Guarded) -> None:
    server = limited(guarded, "connections = 2")
    with guarded.client(server, "nyse"), guarded.client(server, "nyse", "nyse~2") as second:
        assert refusal(guarded.client(server, "nyse")) == "nyse has 2 connections already"
        with guarded.client(server, "ada"), guarded.client(server, "xetra"):
            assert len(server.node.clients) == 4
        second.close()
        with guarded.client(server, "nyse"):
            assert len(server.node.clients) == 2


def test_a_principal_has_so_many_subscriptions_over_all_its_connections(guarded: Guarded) -> None:
    guarded.write(POLICY.replace('members = ["ada", "bob"]', 'members = ["ada", "bob"]\nsubscriptions = 3'))
    server = guarded.start()
    with (
        guarded.client(server, "ada") as one,
        guarded.client(server, "ada") as two,
        one.subscribe("n = 1"),
        one.subscribe("n = 2", durable="desk-1"),
        two.subscribe("n = 3"),
    ):
        with pytest.raises(AccessRefused, match="ada has 3 subscriptions already"):
            two.subscribe("n = 4").installed()
        with guarded.client(server, "bob") as bob, bob.subscribe("n = 4"):
            pass


def test_a_principal_has_filters_of_some_length_and_others_are_unharmed(guarded: Guarded) -> None:
    server = limited(guarded, "subscribe = ['true']\nfilter_bytes = 20")
    long = 'symbol in {"IBM", "SAP", "SUN"}'
    reason = "a filter of nyse has at most 20 bytes"
    with guarded.client(server, "nyse") as nyse, guarded.client(server, "xetra") as xetra:
        for request in (lambda: nyse.subscribe(long).installed(), lambda: nyse.advertise(long)):
            with pytest.raises(AccessRefused, match=reason):
                request()
        with nyse.subscribe('symbol = "IBM"'), xetra.subscribe(long):
            assert len(server.node.broker.subscriptions) == 2


def test_a_durable_subscriber_holds_back_so_much_of_the_log_and_others_are_unharmed(
    guarded: Guarded, until: Callable[[Callable[[], object]], None], caplog: pytest.LogCaptureFixture
) -> None:
    guarded.write(
        POLICY.replace('members = ["ada", "bob"]', 'members = ["ada"]\nbacklog = 5')
        + FREE.replace("xetra", "bob")
    )
    server = guarded.start()

    def waiting_for(name: str) -> int:
        return next(each["behind"] for each in server.node.operations.backlogs() if each["name"] == name)

    for name in ("ada", "bob"):
        with guarded.client(server, name) as client, client.subscribe('symbol = "IBM"', durable=f"{name}~1"):
            pass
    with guarded.client(server, "nyse") as nyse:
        for number in range(20):
            nyse.publish({**IBM, "n": number})
        until(lambda: waiting_for("ada~1") <= 5)
    assert "records for ada~1 are dropped: at most 5 wait for it" in caplog.text
    assert waiting_for("bob~1") >= 20
    for name in ("ada", "bob"):
        got: list[Any] = []
        with (
            guarded.client(server, name) as client,
            client.subscribe('symbol = "IBM"', durable=f"{name}~1") as waiting,
        ):
            while 19 not in got:
                got.append(waiting.get(10).get("n"))
        assert got == [*range(got[0], 20)]
        assert (got[0] >= 15) if name == "ada" else (got[0] == 0)


@pytest.mark.parametrize("limits", ["publications_per_second = 5", "bytes_per_second = 300"])
def test_a_principal_publishes_so_much_in_a_second_and_others_are_unharmed(
    guarded: Guarded, limits: str
) -> None:
    server = limited(guarded, limits)
    refused = 0
    with guarded.client(server, "nyse") as nyse, guarded.client(server, "xetra") as xetra:
        for _ in range(40):
            try:
                nyse.publish(IBM)
            except BrokerRefused:
                refused += 1
            xetra.publish(IBM)
        assert refused > 0
        counts = server.node.counters
        assert counts.published + refused == 80
        assert counts.refused == refused


# -- brokers -----------------------------------------------------------------------------------------------------


def test_a_neighbour_is_a_principal_of_its_name_that_may_link(
    guarded: Guarded, until: Callable[[Callable[[], object]], None]
) -> None:
    server = guarded.start()
    shown = guarded.path / "token"
    for name, principal, linked in (
        ("west", "west", False),
        ("west", "east", False),
        ("east~1", "east", False),
        ("east", "east", True),
    ):
        shown.write_text(token(principal) + "\n")
        other = guarded.start(name, logged=False, links=(server.url,), keys={"credentials": str(shown)})
        if linked:
            until(lambda: server.node.links and all(each.ready for each in server.node.links.values()))
        else:
            reason = f"a broker {name!r} is not linked with {principal}'s credentials"
            until(lambda other=other, reason=reason: reason in str(other.node.calling.waiting()))
            assert not server.node.links
            guarded.brokers.stop(other)
    with (
        guarded.client(other, "ada") as ada,
        guarded.client(server, "nyse") as nyse,
        ada.subscribe("true") as quotes,
    ):
        nyse.publish(SAP)
        nyse.publish(IBM)
        assert quotes.get(10).get("symbol") == "IBM"
    guarded.reload(server, POLICY.replace('"east"', '"west"'))
    until(lambda: not any(each.ready for each in server.node.links.values()))


# -- what is recorded --------------------------------------------------------------------------------------------


def test_every_decision_is_in_the_log_and_no_secret_and_no_content(guarded: Guarded) -> None:
    secret = token("ada", jti="7")
    server = guarded.start()
    with sync.connect(server.url, credentials=bearer(secret)) as ada, guarded.client(server, "nyse") as nyse:
        with ada.subscribe("price > 100", durable="desk-1"), pytest.raises(AccessRefused):
            nyse.publish({**SUN, "card": "4111 1111"})
        with pytest.raises(AccessRefused):
            ada.status()
    guarded.brokers.stop(server)
    text = (guarded.path / "access.jsonl").read_text()
    assert secret not in text
    assert secret.split(".")[2] not in text
    assert "4111" not in text
    rows = [(each["principal"], each["action"], each["outcome"]) for each in guarded.decisions()]
    for expected in (
        ("ada", "connect", "granted"),
        ("ada", "subscribe", "narrowed"),
        ("ada", "durable", "granted"),
        ("ada", "inspect", "refused"),
        ("nyse", "publish", "refused"),
    ):
        assert expected in rows
    [narrowed] = [each for each in guarded.decisions() if each["action"] == "subscribe"]
    assert (narrowed["granted"], narrowed["roles"]) == ('price > 100 and symbol = "IBM"', ["trader"])


def test_the_log_of_a_broker_has_no_token_either(guarded: Guarded) -> None:
    secret = token("ada", jti="7", groups=["traders"])
    server = guarded.start()
    with sync.connect(server.url, credentials=bearer(secret)) as ada, ada.subscribe("true", durable="desk-1"):
        pass
    guarded.brokers.stop(server)
    written = b"".join(each.read_bytes() for each in (guarded.path / "b").rglob("*") if each.is_file())
    assert b'"traders"' in written
    assert secret.split(".")[1].encode() not in written


def test_a_broker_that_everybody_reaches_says_so(
    guarded: Guarded, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    from dataclasses import replace

    from fairlead.network.addresses import Address
    from fairlead.network.settings import BrokerSettings
    from fairlead.security.settings import Security

    for security, warned, exposed in (
        (Security(), True, True),
        (Security(insecure=True), False, True),
        (Security(policy=str(tmp_path / "policy.toml")), False, False),
    ):
        caplog.clear()
        settings = BrokerSettings("b", Address("0.0.0.0", 0), None, security=security)
        server = Server(replace(settings))
        guarded.brokers._wait(server.start())
        try:
            assert ("OPEN TO EVERYBODY" in caplog.text) == warned
            assert server.node.status()["security"]["exposed"] == exposed
        finally:
            guarded.brokers._wait(server.stop())


def test_what_is_repeated_is_counted(guarded: Guarded) -> None:
    server = guarded.start(logged=False)
    with guarded.client(server, "nyse", "nyse") as nyse:
        for _ in range(50):
            with pytest.raises(AccessRefused):
                nyse.publish(SUN)
    guarded.brokers.stop(server)
    refused: list[Any] = [each for each in guarded.decisions() if each["outcome"] == "refused"]
    assert len(refused) <= 10
    assert sum(each.get("repeated", 1) for each in refused) == 50


@pytest.mark.parametrize("leaves", [True, False])
def test_publications_that_are_admitted_are_counted_in_the_log(guarded: Guarded, leaves: bool) -> None:
    server = guarded.start()
    with guarded.client(server, "nyse", "nyse") as nyse:
        nyse.publish(IBM)
        for each in range(7):
            nyse.send({**IBM, "n": each})
        with pytest.raises(AccessRefused):
            nyse.publish({**SUN, "card": "4111 1111"})
        nyse.publish({**IBM, "payload": {"deep": [1 << 80]}})
        nyse.publish(IBM)
        if not leaves:
            guarded.brokers.stop(server)
    if leaves:
        guarded.brokers.stop(server)
    counted = [each for each in guarded.decisions() if "publications" in each]
    assert sum(each["publications"] for each in counted) == 10
    assert {(each["principal"], each["outcome"], each["requested"]) for each in counted} == {
        ("nyse", "granted", None)
    }


def test_a_planted_secret_is_nowhere_after_a_whole_run(
    guarded: Guarded, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    password, secret = "planted-9f2c", token("ada")
    write_entry(tmp_path / "passwords", "nyse", password)
    server = guarded.start(keys={"passwords": str(tmp_path / "passwords")})
    seen = []
    with (
        sync.connect(server.url, credentials=bearer(secret)) as ada,
        sync.connect(server.url, credentials=basic("nyse", password)) as nyse,
    ):
        seen += [repr(vars(nyse._client)), repr(vars(ada._client)), repr(nyse._client._hello())]
        with ada.subscribe("true", durable="desk-1"), pytest.raises(AccessRefused) as error:
            nyse.publish(SUN)
        seen.append(str(error.value))
    for wrong in (bearer(f"{secret}x"), basic("nyse", f"{password}x")):
        seen.append(refusal(sync.connect(server.url, credentials=wrong, patience=1)))
    seen.append(json.dumps(server.node.status()))
    guarded.brokers.stop(server)
    (tmp_path / "keys.json").unlink()
    written = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    for hidden in (password, basic("nyse", password).partition(" ")[2], secret, secret.split(".")[2]):
        assert hidden not in caplog.text
        assert hidden not in "".join(seen)
        assert hidden.encode() not in written


def test_every_refusal_is_in_the_log_whatever_it_is_for(guarded: Guarded, tmp_path: Path) -> None:
    """Credentials, limits, names of brokers, and what followed from a change of the policy."""
    write_entry(tmp_path / "passwords", "nyse", "right")
    limited = POLICY.replace(
        "durables =", "connections = 1\nsubscriptions = 1\nfilter_bytes = 60\ndurables =", 1
    )
    guarded.write(limited)
    server = guarded.start(keys={"passwords": str(tmp_path / "passwords"), "brokers": ("east",)})
    with guarded.client(server, "ada") as ada:
        with pytest.raises(AccessRefused):
            ada.subscribe(" or ".join(["price > 2"] * 20))
        ada.subscribe("price > 1")
        with pytest.raises(AccessRefused):
            ada.subscribe("price > 2")
        with pytest.raises(AccessRefused):
            ada.authenticate(bearer(token("bob")))
        with pytest.raises(AccessRefused):
            ada.listening("true", print)
        for wrong in (bearer("forged"), basic("nyse", "wrong"), bearer(token("ada"))):
            refusal(sync.connect(server.url, credentials=wrong, patience=1))
        guarded.reload(server, limited.replace('symbol = "IBM"', 'symbol = "SAP"'))
        guarded.reload(server, limited.replace('"ada", ', ""))
    with pytest.raises(Forbidden):
        server.node.guard.check_neighbour("west")
    guarded.brokers.stop(server)
    rows = [(each.get("principal"), each["action"], each.get("reason", "")) for each in guarded.decisions()]
    for expected in (
        ("ada", "subscribe", "ada has 1 subscriptions already"),
        ("ada", "subscribe", "a filter of ada has at most 60 bytes"),
        ("ada", "authenticate", "these credentials are another principal's"),
        ("anonymous", "authenticate", "the credentials are not accepted"),
        ("ada", "connect", "ada has 1 connections already"),
        ("ada", "connect", "your rights have ended"),
        ("anonymous", "link", "a broker 'west' is not linked here: [security] brokers does not list it"),
    ):
        assert expected in rows, expected
    assert ("ada", "listen") in {each[:2] for each in rows}
    granted = [each["granted"] for each in guarded.decisions() if each["action"] == "subscribe"]
    assert 'price > 1 and symbol = "SAP"' in granted


def test_a_change_of_the_policy_drops_what_waits_for_those_whose_rights_are_others_alone() -> None:
    access = Access(AccessPolicy.of(TWO), nobody)
    for name in ("ada", "bob"):
        access.bind(f"c:{name}", Principal(name), 0)
    access.bind("c:ada", Principal("ada", until=7, token="2"), 0)  # renewed
    assert access.take_changed() == set()
    access.decide_by(AccessPolicy.of({**TWO, "tell": False}), 1)
    assert access.take_changed() == set()
    access.decide_by(AccessPolicy.of(TWO).revoking("bob"), 2)
    assert access.take_changed() == {"c:bob"}
    access.expire(9)
    assert access.take_changed() == {"c:ada"}
