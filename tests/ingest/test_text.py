"""Each line is one notification, with the line in its attribute `text`."""

from __future__ import annotations

from fairlead.filters.schema import Schema
from fairlead.ingest import Fields, Rejection, text
from fairlead.model import Notification


def test_a_line_is_kept_as_it_stands_but_for_its_end() -> None:
    found = dict(text.read([b"\xef\xbb\xbf a \r\n", b"  \n", b"\xc3\xa9\n", b"\xff\n", b"7"]))
    assert found == {
        1: Notification.of({"text": " a "}),
        3: Notification.of({"text": "é"}),
        4: Rejection("input", 4, "not UTF-8: invalid start byte at byte 1", b"\xff"),
        5: Notification.of({"text": "7"}),
    }


def test_schema_and_fields_reach_every_line() -> None:
    [(_, found)] = text.read([b"x\n"], fields=Fields(id="text"))
    assert isinstance(found, Notification)
    assert found.id == "x"
    [(_, refused)] = text.read([b"x\n"], schema=Schema(attributes={"text": "int"}))
    assert isinstance(refused, Rejection)
