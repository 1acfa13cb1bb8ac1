"""The first channel that matches a notification is its channel, wholly; one that is never used is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.broker import Broker
from fairlead.channels import Channel, Channels, Retain
from fairlead.errors import ChannelError, NetworkError
from fairlead.model import Notification
from fairlead.network.overlay import read_overlay
from fairlead.network.settings import BrokerSettings, agreed, read_settings
from fairlead.rules import Seam
from fairlead.rules.channeling import Channeling
from fairlead.rules.rule import Route

FILTERS = ("x > 1", "x > 2", "x < 2", 'kind = "a"', 'kind = "a" and x > 0', "exists x", "x = 7 or x = 9")


def is_never_used(filters: list[str]) -> bool:
    """Whether one of the channels is chosen for nothing that there is."""
    channels = [Channels([Channel("it", each)]) for each in filters]
    things = [
        Notification.of({**({} if x is None else {"x": x}), "kind": kind})
        for x in (None, "text", 1.5, *range(-1, 12))
        for kind in "ab"
    ]
    chosen = [
        next((at for at, each in enumerate(channels) if each.of(thing) is not None), None) for thing in things
    ]
    return set(range(len(filters))) - {*chosen} != set()


@given(st.lists(st.sampled_from(FILTERS), min_size=1, max_size=4, unique=True))
def test_a_channel_is_refused_iff_it_is_never_used(filters: list[str]) -> None:
    given = [Channel(f"c{at}", each) for at, each in enumerate(filters)]
    if is_never_used(filters):
        with pytest.raises(ChannelError, match="never used"):
            Channels(given)
    else:
        channels = Channels(given)
        for x in range(-1, 12):
            notification = Notification.of({"x": x, "kind": "a"})
            matching = [each for each in channels if Channels([each]).of(notification) is not None]
            assert channels.of(notification) is (matching[0] if matching else None)


def test_a_channel_that_several_before_it_cover_together_is_never_used() -> None:
    given = [Channel("low", "x < 5"), Channel("high", "x >= 5"), Channel("seven", "x = 7")]
    with pytest.raises(ChannelError, match="'seven' is never used: what it matches is in 'high' before it"):
        Channels(given)
    Channels([given[2], *given[:2]])
    with pytest.raises(ChannelError, match="'numbers' is never used: what it matches is in 'low' or 'high'"):
        Channels([*given[:2], Channel("numbers", "x in [0, 9]")])


def test_a_channel_that_overlaps_an_earlier_one_is_remarked_on_with_a_witness() -> None:
    [overlap] = Channels([Channel("low", "x < 5"), Channel("odd", "x in {3, 7}")]).overlaps()
    assert overlap[:2] == ("low", "odd")
    assert overlap.witness is not None
    assert overlap.witness.get("x") == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([Channel("a", "x > 1"), Channel("a", "x < 1")], "two channels 'a'"),
        ([Channel("a", "x >")], "the channel 'a'.*line 1"),
        ([Channel("", "x > 1")], "has a name"),
        ([Channel("a", "x > 1 and x < 1")], "matches nothing"),
    ],
)
def test_channels_that_cannot_be_are_refused_by_name(given: list[Channel], message: str) -> None:
    with pytest.raises(ChannelError, match=message):
        Channels(given)


def test_a_quality_that_cannot_be_is_refused() -> None:
    with pytest.raises(ChannelError, match="names of attributes"):
        Retain(per="symbol")  # type: ignore[arg-type]
    with pytest.raises(ChannelError, match="1 to 1,000"):
        Retain(count=0)


def test_neutral_channels_change_no_answer_and_no_path() -> None:
    def route(notification: Notification, source: str) -> Route:
        return Route((), ())

    neutral = Channeling(Channels([Channel("all", "true")]))
    seam, plain = Seam(route, [neutral]), Seam(route)
    notification = Notification.of({"x": 1})
    assert seam.is_plain_enough("c:a")
    assert seam.mark(notification, 5) is notification
    assert seam.keys("c:a") is not None
    assert plain.channel(notification) is None
    assert seam.channel(notification) == Channel("all", "true")
    keeping = Seam(route, [Channeling(Channels([Channel("all", "x > 0", retain=Retain())]))])
    assert not keeping.is_plain_enough("c:a")
    assert keeping.mark(notification, 5).time is not None
    assert keeping.mark(Notification.of({"x": 0}), 5).time is None


FILE = """
name = "hub"
[[channels]]
name = "quotes"
filter = 'type = "Quote"'
retain = { per = ["symbol"], count = 2, ends = 'state = "gone"' }
[[channels]]
name = "rest"
filter = "exists x"
"""


def test_a_file_has_channels_and_all_brokers_the_same(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text(FILE)
    settings = read_settings(tmp_path / "broker.toml")
    assert settings.channels == (
        Channel("quotes", 'type = "Quote"', Retain(("symbol",), 2, 'state = "gone"')),
        Channel("rest", "exists x"),
    )
    network = 'links = [["a", "b"]]\n[brokers]\na = 0\nb = 0\n' + FILE.partition("\n")[2].partition("\n")[2]
    (tmp_path / "topology.toml").write_text(network)
    overlay = read_overlay(tmp_path / "topology.toml")
    assert [each.channels for each in overlay.brokers] == [settings.channels] * 2

    def routing(broker: Broker) -> str:
        return agreed(broker.settings, channels=broker.seam.channels)

    one, other = overlay.brokers[0].broker(), overlay.brokers[1].broker()
    assert routing(one) == routing(other) != routing(BrokerSettings().broker())
    reordered = BrokerSettings(channels=settings.channels[::-1]).broker()
    assert routing(one) != routing(reordered)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ('[[channels]]\nname = "a"\nfilter = "true"\n' * 2, "there are two channels 'a'"),
        ('[[channels]]\nname = "a"\n', r"\[\[channels\]\] 1: filter: missing"),
        ('[[channels]]\nname = "a"\nfilter = "true"\nretain = { pr = ["x"] }', "pr: no such key"),
        ('[[channels]]\nname = "a"\nfilter = "true"\nttl = 1', "ttl: no such key"),
    ],
)
def test_a_file_whose_channels_cannot_be_is_refused_with_the_place(
    tmp_path: Path, given: str, message: str
) -> None:
    (tmp_path / "broker.toml").write_text(given)
    with pytest.raises(NetworkError, match=message):
        read_settings(tmp_path / "broker.toml").broker()
