"""One XML document is one notification: its elements are the tree that path filters select from (book 3.1.3).

The tree's root is the one element named `notification`; a document with another root becomes its only child.
The attributes of the document's root are the notification's attributes, and its envelope. An attribute's
value that reads exactly like a JSON number is a number, any other a string, unless the schema declares it,
by its dotted path below the root, as a string, a boolean or a time; `id` and `producer` are strings. Text
between tags is ignored.

Document type declarations and entities are refused: a document of a few lines could otherwise expand to
gigabytes or name files of this machine.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from xml.parsers import expat

from fairlead.errors import ValueRefused
from fairlead.filters.schema import Schema
from fairlead.ingest.literals import Literals
from fairlead.ingest.records import STANDARD, Fields
from fairlead.ingest.rejection import Rejection
from fairlead.model import ROOT, Element, Notification
from fairlead.model.encoding import DEPTH_MAX

__all__ = ["read"]


def read(
    raw: bytes | str,
    *,
    source: str = "document",
    line: int | None = None,
    schema: Schema | None = None,
    fields: Fields = STANDARD,
) -> Notification | Rejection:
    """The notification that an XML document holds, or why there is none."""
    try:
        if not raw.strip():
            raise ValueRefused("an empty document")
        document = _parsed(raw, Literals(schema, fields))
        notification = fields.notification(document.attributes)
        wrapped = document if document.name == ROOT else Element(ROOT, {}, (document,))
        notification = replace(notification, document=wrapped)
        return notification if schema is None else schema.admit(notification)
    except ValueRefused as error:
        return Rejection.of(error, raw, source=source, line=line)


def _parsed(raw: bytes | str, literals: Literals) -> Element:
    builder = _Builder(literals)
    parser = expat.ParserCreate()
    parser.ordered_attributes = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.StartDoctypeDeclHandler = _refuse_declaration
    parser.EntityDeclHandler = _refuse_declaration
    try:
        parser.Parse(raw, True)
    except expat.ExpatError as error:
        problem = expat.ErrorString(error.code)
        raise ValueRefused(f"not XML: {problem}, line {error.lineno} column {error.offset + 1}") from None
    except ValueRefused:
        raise
    except (LookupError, ValueError) as error:  # an encoding that Python does not know, or a lone surrogate
        raise ValueRefused(f"not XML: {error}") from None
    assert builder.document is not None, "expat accepts no document without a root"
    return builder.document


def _refuse_declaration(*_: Any) -> None:
    raise ValueRefused("document type declarations and entities are refused")


class _Builder:
    """The tree grows from the leaves: an element is made when its end tag comes."""

    def __init__(self, literals: Literals) -> None:
        self.document: Element | None = None
        self._literals = literals
        self._open: list[tuple[str, dict[str, Any], list[Element]]] = []

    def start(self, name: str, listed: list[str]) -> None:
        if name == ROOT and self._open:
            raise ValueRefused(f"an element named {ROOT!r} below the root")
        if len(self._open) >= DEPTH_MAX - 1:  # one more level may be wrapped around the document
            raise ValueRefused(f"nested more than {DEPTH_MAX} levels deep")
        # Names that the notification's own attributes and the paths below it go by; a root that will be
        # wrapped is a step of its descendants' paths, the notification itself is not.
        steps = [step for step, *_ in self._open if step != ROOT]
        prefix = "".join(f"{step}." for step in [*steps, name]) if self._open else ""
        attributes = {
            key: self._value(prefix + key, text) for key, text in zip(listed[::2], listed[1::2], strict=True)
        }
        self._open.append((name, attributes, []))

    def end(self, _: str) -> None:
        name, attributes, children = self._open.pop()
        element = Element(name, attributes, tuple(children))
        if self._open:
            self._open[-1][2].append(element)
        else:
            self.document = element

    def _value(self, path: str, text: str) -> Any:
        if path.count(".") >= DEPTH_MAX:
            raise ValueRefused(f"nested more than {DEPTH_MAX} levels deep: an attribute's name")
        return self._literals.value(path, text)
