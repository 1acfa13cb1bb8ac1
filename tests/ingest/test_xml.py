"""One XML document is one notification: its elements are the tree that path filters select from."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.filters.schema import Schema
from fairlead.ingest import Fields, Rejection, xml
from fairlead.model import ABSENT, Element, Instant, Notification

# In the manner of the book's Figure 3.5.
AUCTION = b"""<?xml version="1.0" encoding="UTF-8"?>
<notification id="7" producer="house" time="2024-05-01T10:00:00Z" sequence="3">
  <auction endtime="12:00">
    <item> a nice one
      <cpu manufacturer="AMD" clock="700" price="19.9"/>
      <cpu manufacturer="Intel" clock="1e3"/>
    </item>
  </auction>
</notification>"""


def read(raw: bytes | str, **options: object) -> Notification:
    found = xml.read(raw, **options)  # type: ignore[arg-type]
    assert isinstance(found, Notification), found
    return found


def rejected(raw: bytes | str, **options: object) -> str:
    found = xml.read(raw, source="a.xml", **options)  # type: ignore[arg-type]
    assert isinstance(found, Rejection), found
    assert (found.source, found.raw) == ("a.xml", raw)
    return found.reason


def test_a_document_is_a_tree_and_its_root_the_envelope() -> None:
    found = read(AUCTION)
    assert (found.id, found.producer, found.sequence) == ("7", "house", 3)
    assert found.time == found.get("time") == Instant.parse("2024-05-01T10:00:00Z")
    cpus = (
        Element("cpu", {"manufacturer": "AMD", "clock": 700, "price": 19.9}),
        Element("cpu", {"manufacturer": "Intel", "clock": 1000.0}),
    )
    assert found.tree == Element(
        "notification",
        {"id": "7", "producer": "house", "time": found.time, "sequence": 3},
        (Element("auction", {"endtime": "12:00"}, (Element("item", {}, cpus),)),),
    )
    assert found.get("auction") is ABSENT


def test_a_document_with_another_root_is_wrapped() -> None:
    found = read(b'<auction id="7" x="1"><item/></auction>')
    assert (found.id, found.get("x")) == ("7", 1)
    auction = Element("auction", {"id": "7", "x": 1}, (Element("item"),))
    assert found.tree == Element("notification", {}, (auction,))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("700", 700),
        ("-0.5", -0.5),
        ("0.1000000000000000055511", Decimal("0.1000000000000000055511")),
        ("9007199254740993", 9007199254740993),
        ("007", "007"),
        ("+1", "+1"),
        (" 1", " 1"),
        ("1.", "1."),
        ("true", "true"),
        ("", ""),
        ("&lt;&#233;&gt;", "<é>"),
    ],
)
def test_attributes_that_read_like_json_numbers_are_numbers(text: str, value: object) -> None:
    found = read(f'<notification a="{text}"/>').get("a")
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize("identity", ["7", "1.5", "1e5"])
def test_identities_are_strings(identity: str) -> None:
    found = read(f'<notification id="{identity}" producer="{identity}"/>')
    assert (found.id, found.producer, found.get("id")) == (identity, identity, identity)
    mapped = read(f'<order number="{identity}"/>', fields=Fields(id="number"))
    assert (mapped.id, mapped.get("number")) == (identity, identity)


def test_a_declared_kind_wins() -> None:
    schema = Schema(
        attributes={
            "zip": "string",
            "open": "boolean",
            "since": "time",
            "auction.item.no": "string",
            "auction.item.clock": "int",
        }
    )
    raw = (
        '<notification zip="12345" open="true" since="2024-05-01T10:00:00Z" other="1">'
        '<auction><item no="5" clock="7.0" zip="5"/></auction></notification>'
    )
    found = read(raw, schema=schema)
    assert found.get("zip") == "12345"
    assert found.get("open") is True
    assert found.get("since") == Instant.parse("2024-05-01T10:00:00Z")
    item = found.tree.children[0].children[0]
    assert item.attributes == {"no": "5", "clock": 7, "zip": 5}
    wrapped = read('<auction><item no="5"/></auction>', schema=schema)
    assert wrapped.tree.children[0].children[0].attributes == {"no": "5"}


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        ("int", '<notification a="7.5"/>'),
        ("boolean", '<notification a="yes"/>'),
        ("number", '<notification a=""/>'),
        ("set", '<notification a="1"/>'),
        ("int", '<notification><x><y a="seven"/></x></notification>'),
        ("int", '<x><y a="seven"/></x>'),
    ],
)
def test_an_attribute_outside_its_domain_is_rejected(kind: str, raw: str) -> None:
    schema = Schema(attributes={"a": kind, "x.y.a": kind})
    assert f"a' is declared as {kind}" in rejected(raw, schema=schema)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "an empty document"),
        (b"<a>", "not XML"),
        (b"<a></b>", "not XML: mismatched tag, line 1"),
        (b'<a x="1" x="2"/>', "not XML: duplicate attribute"),
        (b"<a/><b/>", "not XML: junk after document element"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "declarations and entities are refused"),
        (b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', "declarations and entities are refused"),
        (b"<a>&b;</a>", "not XML: undefined entity"),
        (b"<a><notification/></a>", "below the root"),
        (b"<notification><a><notification/></a></notification>", "below the root"),
        (b'<?xml version="1.0" encoding="klingon"?><a/>', "not XML"),
        (b'<?xml version="1.0" encoding="utf-7"?><a/>', "not XML"),
        (b'<a x="\xff"/>', "not XML"),
        ('<a x="\ud800"/>', "not XML"),
        (b'<a x="&#xD800;"/>', "not XML"),
        (b'<notification time="noon"/>', "not an instant"),
        (b'<notification sequence="1.5"/>', "'sequence' is a whole number"),
        (b'<a x="1e99999"/>', "more than 4300 digits"),
        (b'<a x="' + b"1" * 5000 + b'"/>', "more than 4300 digits"),
        (b"<a>" * 100_000 + b"</a>" * 100_000, "levels deep"),
        (b"<" + b"a " + b"a." * 5000 + b'a="1"/>', "levels deep"),
        (b'<a b="1" b.c="2"/>', "value already"),
    ],
)
def test_what_is_no_notification_is_rejected_with_the_reason(raw: bytes | str, reason: str) -> None:
    assert reason in rejected(raw)


def test_other_encodings_are_read() -> None:
    assert read('<?xml version="1.0" encoding="latin-1"?><a x="é"/>'.encode("latin-1")).get("x") == "é"
    assert read('<a x="é"/>'.encode("utf-16")).get("x") == "é"
    assert read("<a x='é'/>").get("x") == "é"


def test_many_siblings_are_no_trouble() -> None:
    found = read(b"<a>" + b"<b/>" * 20_000 + b"</a>")
    assert len(found.tree.children[0].children) == 20_000


TOKENS = [
    b"<",
    b">",
    b"/>",
    b'"',
    b"&",
    b"&#0;",
    b"<a>",
    b"</a>",
    b"<![CDATA[",
    b"<!--",
    b"<?",
    b"\xff",
    b" x='1'",
]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """The auction with a few pieces cut out, doubled or replaced."""
    text = AUCTION
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 8)))
        text = text[:start] + draw(st.sampled_from([*TOKENS, text[start:end] * 2, b""])) + text[end:]
    return text


SCHEMA = Schema(attributes={"auction.item.cpu.clock": "int", "sequence": "int", "auction.endtime": "string"})


@given(st.binary(max_size=60) | mutated(), st.sampled_from([None, SCHEMA]))
@settings(max_examples=500)
def test_errors_at_the_door_are_values_never_exceptions(raw: bytes, schema: Schema | None) -> None:
    found = xml.read(raw, schema=schema)
    assert isinstance(found, Notification | Rejection)
    if isinstance(found, Rejection):
        assert found.reason
        assert found.raw == raw
