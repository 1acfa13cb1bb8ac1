"""Protected attributes reach those who may read them, and nobody learns of them by what is delivered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.bus import Bus
from fairlead.errors import AccessRefused, Forbidden, PolicyError
from fairlead.ingest import xml
from fairlead.ingest.records import notification_of
from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.rules.access import Access
from fairlead.security import AccessPolicy
from fairlead_lab.testing.guarded import Guarded

TABLES: dict[str, Any] = {
    "protected": ["patient", "drill"],
    "roles": {
        "all": {"members": ["*"], "subscribe": ["true"], "publish": ["true"], "producers": ["*"]},
        "police": {"members": ["police"], "reads": ["drill"]},
        "doctor": {"members": ["doctor"], "reads": ["*"]},
    },
}
POLICY = AccessPolicy.of(TABLES)
FILE = """
protected = ["patient", "drill"]
[roles.all]
members = ["*"]
subscribe = ["true"]
publish = ["true"]
durables = ["desk-*"]
[roles.doctor]
members = ["doctor"]
reads = ["*"]
[roles.operator]
members = ["root"]
allow = ["connect", "manage"]
clients = ["operator"]
"""
WITHOUT_DOCTORS = FILE.replace('["doctor"]', '["nobody"]')
EVENT = {"id": "1", "place": "Main St", "drill": True, "patient": {"name": "Eve", "age": 33.50}}


@pytest.mark.parametrize("order", ["live", "ordered"])
def test_subscribers_get_what_they_may_read(order: Any) -> None:
    got: dict[str, Any] = {}
    with Bus(rules=[Access(POLICY)], order=order) as bus:
        for name in ("news", "police", "doctor"):
            bus.subscribe("exists place", lambda n, name=name: got.update({name: n}), subscriber=name)
        bus.publish({**EVENT, "producer": "city"})
    assert {name: sorted(n.content) for name, n in got.items()} == {
        "news": ["id", "place", "producer"],
        "police": ["drill", "id", "place", "producer"],
        "doctor": ["drill", "id", "patient", "place", "producer"],
    }
    assert got["doctor"].to_json() == Notification.of({**EVENT, "producer": "city"}).to_json()


@pytest.mark.parametrize(
    "filter", ["drill = true", "absent drill", 'not patient.name = "Eve"', "patient.age + 1 > 3", "//drill"]
)
def test_a_filter_that_reads_them_is_refused_by_name(filter: str) -> None:
    with Bus(rules=[Access(POLICY)]) as bus:
        with pytest.raises(Forbidden, match=r"news may not read '(drill|patient)'"):
            bus.subscribe(filter, subscriber="news")
        bus.subscribe(filter, subscriber="doctor")


def test_a_limit_may_read_them_and_the_subscriber_learns_no_more_than_the_limit_says() -> None:
    limited = AccessPolicy.of(
        {"protected": ["drill"], "roles": {"news": {"members": ["news"], "subscribe": ["not drill = true"]}}}
    )
    got: list[Notification] = []
    with Bus(rules=[Access(limited)]) as bus:
        bus.subscribe("true", got.append, subscriber="news")
        bus._seam.rules[-1].admit = lambda *_: None  # type: ignore[method-assign]
        for number, drill in enumerate((True, False)):
            bus.publish({"id": str(number), "drill": drill, "producer": "news"})
    assert [each.content for each in got] == [{"id": "1", "producer": "news"}]


def test_a_pattern_of_somebody_who_may_not_read_all_is_refused() -> None:
    with Bus(rules=[Access(POLICY)]) as bus:
        with pytest.raises(Forbidden, match="a pattern reads whole notifications"):
            bus.detect("A followed by B", subscriber="news")
        bus.detect("A followed by B", subscriber="doctor")


@pytest.mark.parametrize(
    ("tables", "problem"),
    [
        ({"protected": ["time"]}, "how notifications are known"),
        ({"protected": ["a.b"]}, "protect 'a'"),
        ({"protected": ["drill"], "roles": {"r": {"reads": ["dril"]}}}, "did you mean"),
    ],
)
def test_what_cannot_be_protected_is_said(tables: dict[str, Any], problem: str) -> None:
    with pytest.raises(PolicyError, match=problem):
        AccessPolicy.of(tables)


def test_a_policy_that_protects_more_decides_otherwise() -> None:
    assert (
        AccessPolicy.of({**TABLES, "protected": ["patient", "drill", "x"]}).fingerprint != POLICY.fingerprint
    )


# -- what is left of a notification ------------------------------------------------------------------------------


NAMES = st.sampled_from(["a", "b", "b.c", "b.d.e", "c"])
records = st.dictionaries(NAMES, st.one_of(st.integers(), st.text(max_size=3), st.booleans()), max_size=4)


@given(records, st.frozensets(st.sampled_from(["a", "b", "c"])))
def test_nothing_of_it_is_left_and_all_else_is(record: dict[str, Any], hidden: frozenset[str]) -> None:
    """Compared with a notification that never had it."""
    try:
        notification = Notification.of({"id": "1", **record})
    except Exception:
        return
    kept = {name: value for name, value in record.items() if name.split(".")[0] not in hidden}
    shown = notification.without(hidden)
    expected = Notification.of({"id": "1", **kept})
    assert (shown, shown.content) == (expected, expected.content)
    assert unpack(pack(shown)).content == expected.content


def test_what_reads_otherwise_than_it_was_published_is_delivered_as_it_reads() -> None:
    """A CloudEvent whose payload is lifted: what is hidden by its name is in the payload, too."""
    event = {"specversion": "1.0", "id": "1", "source": "city", "type": "t", "data": {"drill": True, "x": 1}}
    read = notification_of(event, lift=True)
    assert read.get("drill") is True
    assert "drill" not in read.without(frozenset({"drill"})).to_json()


def test_a_document_is_left_out() -> None:
    read = xml.read(b"<alarm id='1'><drill>yes</drill><x>1</x></alarm>")
    assert isinstance(read, Notification)
    assert read.document is not None
    shown = read.without(frozenset({"drill"}))
    assert shown.document is None
    assert "drill" not in shown.to_json()


# -- at a broker -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["publish", "send"])
@pytest.mark.parametrize("plain", [True, False])
def test_a_broker_delivers_what_each_may_read(guarded: Guarded, way: str, plain: bool) -> None:
    guarded.write(FILE)
    server = guarded.start()
    event = {"x": 1, "drill": True} if plain else {**EVENT, "x": 1, "n": 1 << 70}
    hidden = {"drill", "patient"}
    with (
        guarded.client(server, "news") as news,
        guarded.client(server, "doctor") as doctor,
        news.subscribe("x = 1") as open_to_all,
        doctor.subscribe("x = 1") as to_doctors,
    ):
        for number in range(3):
            getattr(doctor, way)({**event, "id": str(number)})
        for _ in range(3):
            shown, whole = open_to_all.get(10), to_doctors.get(10)
            assert hidden & {*whole.content}
            assert {**shown.content} == {
                name: each for name, each in whole.content.items() if name not in hidden
            }
        with pytest.raises(AccessRefused, match="news may not read 'drill'"):
            news.subscribe("drill = true")


def test_what_waits_in_the_log_is_shown_by_the_rights_at_delivery(guarded: Guarded) -> None:
    guarded.write(FILE)
    server = guarded.start()
    with guarded.client(server, "doctor") as doctor:
        with doctor.subscribe("x = 1", durable="desk-1"):
            pass
        for number in range(3):
            doctor.publish({"x": 1, "drill": True, "id": str(number)})
    guarded.reload(server, WITHOUT_DOCTORS)
    with guarded.client(server, "doctor") as doctor:
        with doctor.subscribe("x = 1", durable="desk-1") as waiting:
            assert ["drill" in waiting.get(10).content for _ in range(3)] == [False] * 3
        with doctor.subscribe("x = 1") as live:
            for id, policy in (("9", FILE), ("10", WITHOUT_DOCTORS), ("11", FILE)):
                guarded.reload(server, policy)
                doctor.publish({"x": 1, "drill": True, "id": id})
                assert ("drill" in live.get(10).content) == (policy == FILE)


def test_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(FILE)
    assert AccessPolicy.read(tmp_path / "policy.toml").protected == {"patient", "drill"}
